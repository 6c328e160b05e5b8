"""What training costs and how exact it is, measured as ratios within one run.

Seconds of one machine say little about another, so a benchmark measures both sides of a ratio in the same run, and
nothing is timed before it has been checked to be right. Let nothing else run meanwhile. `lila bench --list` prints the
list below, which `catalogue` holds as data.

Behind the command `lila bench`:

- `hyper_steps`: the cost of a hyper-step in epochs of the weights, for each network and kind of passes.
  Command: `lila bench`
- `whole_runs`: the cost of a whole run that learns while it trains, in plain runs of the same network.
  Command: `lila bench --networks none --runs mlp,resnet-8-8`
- `scaling`: how cost and memory of a hyper-step grow with examples, samples, classes and the width of a layer.
  Command: `lila bench --networks none --scaling --width 10000`

Scripts of their own, which take `--help` and print JSON:

- `calibration`: how well the probabilities of the invariant network are calibrated, and what their error comes from.
  Command: `python -m lila.benchmarks.calibration --out FOLDER`
- `compiled`: whether `torch.compile` makes an epoch of the weights faster.
  Command: `python -m lila.benchmarks.compiled`
- `correlated_ranges`: whether correlated ranges tell coupled scales from independent ones, and their gain in evidence.
  Command: `python -m lila.benchmarks.correlated_ranges`
- `cross_validation`: the cost of a search for the range by cross-validation with Optuna, in runs of lila.
  Command: `python -m lila.benchmarks.cross_validation`
- `denormals`: an epoch with denormal numbers, in epochs in which they are flushed to zero.
  Command: `python -m lila.benchmarks.denormals`
- `empty_views`: what views that show nothing gain in evidence, by Kronecker factors and by the full matrix.
  Command: `python -m lila.benchmarks.empty_views`
- `family_speed`: the cost of each family of augmentations and of its gradient, in units of the affine warp's.
  Command: `python -m lila.benchmarks.family_speed`
- `few_images`: what is learned from few photographs in classes of unequal size, and what the evidence is made of.
  Command: `python -m lila.benchmarks.few_images --out FOLDER`
- `full_turns`: the evidence of a rotation at the weights that were trained for one value of it.
  Command: `python -m lila.benchmarks.full_turns`
- `held_ranges`: the exact evidence of a case of the gallery whose ranges are held at multiples of the true ones.
  Command: `python -m lila.benchmarks.held_ranges dimmed-digits`
- `laplace_torch`: the cost of the evidence and its gradient in the prior, in units of laplace-torch's.
  Command: `python -m lila.benchmarks.laplace_torch`
- `magnitudes`: by how much learned ranges differ from those by which the images were transformed.
  Command: `python -m lila.benchmarks.magnitudes --out FOLDER`
- `probe_noise`: the error that random probes add to a gradient, beside the noise of the sampled transformations.
  Command: `python -m lila.benchmarks.probe_noise`
- `processes`: the cost of an epoch and of a hyper-step with two processes, and the bytes that they exchange.
  Command: `python -m lila.benchmarks.processes`
- `profile_passes`: the share of each PyTorch operation in the time of a hyper-step.
  Command: `python -m lila.benchmarks.profile_passes`
- `running_agreement`: whether learning while training finds the same ranges as exact passes after each epoch.
  Command: `python -m lila.benchmarks.running_agreement --out FOLDER`
- `stock_networks`: the cost of a hyper-step of networks of timm, in steps of the weights with as many views.
  Command: `python -m lila.benchmarks.stock_networks`
- `time_to_range`: the CPU time until the rotation of MNIST is learned, while training and by passes over the data.
  Command: `python -m lila.benchmarks.time_to_range`
- `two_translations`: why two translations of the same true range are learned as different ranges.
  Command: `python -m lila.benchmarks.two_translations`
- `view_noise`: the variance of averages over the views of an example, for independent and stratified noise.
  Command: `python -m lila.benchmarks.view_noise`
- `weight_steps`: an epoch of the weights in mixed arithmetic, and one without fused steps, in usual epochs.
  Command: `python -m lila.benchmarks.weight_steps`

`measuring` has the clocks, `workloads` the networks and data that several benchmarks share, `warps` a part of
`hyper_steps`, and `script` the options and the output that the scripts have in common. `baseline.json` is what
`lila bench` measured once, to compare with.
"""
