"use strict";
// lila's transformations of images and time series. Images are {width, height, channels, data} with values in [0, 1],
// channel by channel; series are {width, channels, data} as the network sees them. Noise is a list of numbers in [-1, 1];
// where it chooses an outcome, FIRST_OUTCOME + k asks for the k-th.
const FIRST_OUTCOME = 2;

// c = centre + mixing eps: one coefficient per row.
function coefficients(step, noise) {
  return step.mixing.map((row, i) => row.reduce((sum, entry, j) => sum + entry * noise[step.start + j], step.centre[i]));
}

function product(A, B) {
  return A.map((row) => B[0].map((_, j) => row.reduce((sum, entry, k) => sum + entry * B[k][j], 0)));
}

const identity = (n) => [...Array(n)].map((_, i) => [...Array(n)].map((_, j) => Number(i === j)));

// exp(X) by a power series at X / 2^10, squared ten times.
function exponential(X) {
  const small = X.map((row) => row.map((entry) => entry / 1024));
  let result = identity(X.length);
  for (let k = 9; k >= 1; k--) {
    // Horner: 1 + X (1 + X/2 (1 + X/3 (...)))
    result = product(small, result).map((row, i) => row.map((entry, j) => entry / k + Number(i === j)));
  }
  for (let k = 0; k < 10; k++) result = product(result, result);
  return result;
}

// Where a place outside of n pixels is read: pixel centres are 0, ..., n - 1, edges half a pixel beyond.
const PADDINGS = {
  zeros: (place) => place,
  border: (place, n) => Math.min(Math.max(place, 0), n - 1),
  reflection: (place, n) => {
    const fromEdge = Math.abs(place + 0.5), turns = Math.floor(fromEdge / n), rest = fromEdge - turns * n;
    return Math.min(Math.max((turns % 2 ? n - rest : rest) - 0.5, 0), n - 1);
  },
};

// x'(p) = x(inverse p), bilinearly. The origin is the centre of the image, the unit half its longer side.
function warp(image, inverse, padding, outside) {
  const { width, height, channels, data } = image, longer = Math.max(width, height), pad = PADDINGS[padding];
  const [[a, b, c], [d, e, f]] = inverse, result = new Float32Array(data.length), area = width * height;
  for (let row = 0; row < height; row++) {
    for (let column = 0; column < width; column++) {
      const x = (2 * column + 1 - width) / longer, y = (2 * row + 1 - height) / longer;
      const u = pad(((a * x + b * y + c) * longer + width - 1) / 2, width);
      const v = pad(((d * x + e * y + f) * longer + height - 1) / 2, height);
      const left = Math.floor(u), top = Math.floor(v), right = u - left, low = v - top;
      for (let channel = 0; channel < channels; channel++) {
        const at = (i, j) =>
          i < 0 || j < 0 || i >= width || j >= height ? outside[channel] : data[channel * area + j * width + i];
        result[channel * area + row * width + column] =
          (1 - low) * ((1 - right) * at(left, top) + right * at(left + 1, top)) +
          low * ((1 - right) * at(left, top + 1) + right * at(left + 1, top + 1));
      }
    }
  }
  return { ...image, data: result };
}

function affine(image, step, noise, { outside }) {
  const c = coefficients(step, noise), X = identity(3).map((row) => row.map(() => 0));
  step.generators.forEach((G, i) => G.forEach((row, j) => row.forEach((entry, k) => (X[j][k] -= c[i] * entry))));
  return warp(image, exponential(X), step.padding, outside);
}

// v' = A v^gamma + t: see lila.augment.colour.
function colour(image, step, noise) {
  const change = Object.fromEntries(coefficients(step, noise).map((c, i) => [step.names[i], c]));
  const of = (name) => change[name] ?? 0;
  const { channels, data } = image, area = data.length / channels, eye = identity(channels);
  const luma = channels === 3 ? [0.299, 0.587, 0.114] : [1];
  let A = eye;
  if (channels === 3) {
    A = A.map((row, i) => row.map((entry) => entry * (1 + of(["red", "green", "blue"][i]))));
    const cos = Math.cos(of("hue")), sin = Math.sin(of("hue")) / Math.sqrt(3), K = [[0, -1, 1], [1, 0, -1], [-1, 1, 0]];
    A = product(eye.map((row, i) => row.map((entry, j) => cos * entry + (1 - cos) / 3 + sin * K[i][j])), A);
    A = product(eye.map((row, i) => row.map((entry, j) => entry + of("saturation") * (entry - luma[j]))), A);
  }
  A = A.map((row) => row.map((entry) => entry * (1 + of("brightness"))));
  const mean = eye.map((_, i) => data.subarray(i * area, (i + 1) * area).reduce((sum, v) => sum + v, 0) / area);
  const pivot = A.reduce((sum, row, i) => sum + luma[i] * row.reduce((s, entry, j) => s + entry * mean[j], 0), 0);
  const stretch = 1 + of("contrast"), shift = (1 - stretch) * pivot, power = Math.expm1(of("gamma"));
  const result = new Float32Array(data.length);
  for (let p = 0; p < area; p++) {
    for (let j = 0; j < channels; j++) {
      const v = data[j * area + p], u = v * Math.exp(power * Math.log(Math.max(Math.abs(v), 1e-6)));
      for (let i = 0; i < channels; i++) result[i * area + p] += stretch * A[i][j] * u;
    }
  }
  return { ...image, data: result.map((value) => value + shift) };
}

// Time series: see lila.augment.series.
function time(series, step, noise) {
  const c = coefficients(step, noise), { width, channels, data } = series;
  const of = (name) => c[step.names.indexOf(name)] ?? 0, warp = step.names.indexOf("warp");
  const further = noise.slice(step.start + step.names.length, step.start + step.count);
  const waves = warp < 0 ? [] : [c[warp], ...further.map((value) => value * step.mixing[warp][warp])];
  const pad = PADDINGS[step.padding], result = new Float32Array(data.length);
  for (let i = 0; i < width; i++) {
    const u = (2 * i + 1) / width - 1;
    const bent = waves.reduce((sum, w, k) => sum + (w / (k + 1)) * Math.sin(((k + 1) * Math.PI * (u + 1)) / 2), 0);
    const place = pad(((Math.exp(-of("dilation")) * (u - of("shift")) - bent + 1) * width - 1) / 2, width);
    const left = Math.floor(place), right = place - left;
    for (let channel = 0; channel < channels; channel++) {
      const at = (j) => (j < 0 || j >= width ? 0 : data[channel * width + j]);
      const value = (1 - right) * at(left) + right * at(left + 1);
      result[channel * width + i] = (1 + of("amplitude")) * value + of("offset");
    }
  }
  return { ...series, data: result };
}

// The number of the outcome that a noise value chooses; the identity takes the middle of [-1, 1].
function outcome(step, noise) {
  const value = noise[step.start];
  if (value >= FIRST_OUTCOME) return Math.round(value - FIRST_OUTCOME);
  const first = step.ends.findIndex((end) => Math.abs(value) <= end);
  return first < 0 ? step.ends.length : first;
}

// Each pixel (column, row) of the result is taken from another pixel.
function rearranged(image, from) {
  const { width, height, channels, data } = image, result = new Float32Array(data.length), area = width * height;
  for (let row = 0; row < height; row++) {
    for (let column = 0; column < width; column++) {
      const [i, j] = from(column, row, width, height);
      for (let c = 0; c < channels; c++) result[c * area + row * width + column] = data[c * area + j * width + i];
    }
  }
  return { ...image, data: result };
}

const flipped = (from) => (image, step, noise) => (outcome(step, noise) ? rearranged(image, from) : image);
const quarterTurn = (i, j, width) => [width - 1 - j, i];

const STEPS = {
  affine,
  colour,
  time,
  "horizontal-flip": flipped((i, j, width) => [width - 1 - i, j]),
  "vertical-flip": flipped((i, j, width, height) => [i, height - 1 - j]),
  "quarter-turns": (image, step, noise) => {
    for (let turns = outcome(step, noise); turns > 0; turns--) image = rearranged(image, quarterTurn);
    return image;
  },
};

function transformed(input, described, noise) {
  return described.steps.reduce((moved, step) => STEPS[step.kind](moved, step, noise, described), input);
}
