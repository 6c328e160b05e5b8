"""The engine: what an experiment is, how its jobs are run and stored, and which files it writes.

- `experiment`: the base class of experiments, their verdicts and summaries.
- `jobs`: a piece of work whose result depends on its arguments alone, and the shards that machines share.
- `registry`: the works and experiments known by name.
- `images`: the work "images", which trains a network on a data set of images.
- `results`: accuracies, evidences and learned ranges from the results of trainings.
- `store`, `runner`: a folder of results, and the processes that fill it.
- `output`, `sheets`: the page, figures and data of an experiment, and its section of a report.
"""
