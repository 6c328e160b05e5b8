// A grid of images, or of time series, that answers to a slider for each range.
// Numbers in [0, 1) that are the same each time a page is opened.
function randomNumbers(seed) {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

// The images of a picture in which they stand one below the other.
async function readImages({ picture, count, width, height, channels }) {
  const image = Object.assign(new Image(), { src: picture });
  await image.decode();
  const canvas = document.createElement("canvas");
  [canvas.width, canvas.height] = [width, height * count];
  const context = canvas.getContext("2d", { willReadFrequently: true });
  context.drawImage(image, 0, 0);
  const { data: pixels } = context.getImageData(0, 0, width, height * count), area = width * height;
  return [...Array(count)].map((_, n) => {
    const data = new Float32Array(channels * area);
    for (let c = 0; c < channels; c++)
      for (let p = 0; p < area; p++) data[c * area + p] = pixels[4 * (n * area + p) + c] / 255;
    return { width, height, channels, data };
  });
}

function readSeries({ values, count, width, channels }) {
  const size = channels * width;
  return [...Array(count)].map((_, n) => ({ width, channels, data: Float32Array.from(values.slice(n * size, (n + 1) * size)) }));
}

function paintImage(canvas, { width, height, channels, data }) {
  [canvas.width, canvas.height] = [width, height];
  const context = canvas.getContext("2d"), shown = context.createImageData(width, height), area = width * height;
  for (let p = 0; p < area; p++) {
    for (let c = 0; c < 3; c++) shown.data[4 * p + c] = Math.round(255 * data[(channels === 3 ? c : 0) * area + p]);
    shown.data[4 * p + 3] = 255;
  }
  context.putImageData(shown, 0, 0);
}

const LINES = ["currentColor", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#8a9a00"];

function paintSeries(canvas, { width, channels, data }, { low, high, mean, std }) {
  [canvas.width, canvas.height] = [240, 140];
  const context = canvas.getContext("2d");
  context.lineWidth = 2.5;
  context.lineJoin = "round";
  for (let c = 0; c < channels; c++) {
    context.strokeStyle = c ? LINES[c % LINES.length] : getComputedStyle(canvas).color;
    context.beginPath();
    for (let i = 0; i < width; i++) {
      const value = data[c * width + i] * std[c] + mean[c];
      context.lineTo((240 * (i + 0.5)) / width, 8 + (124 * (high - value)) / (high - low || 1));
    }
    context.stroke();
  }
}

// The values between which all series lie, with some room for those that are moved.
function limits(inputs, { mean, std, width }) {
  const undone = (value, i) => value * std[Math.floor(i / width)] + mean[Math.floor(i / width)];
  const values = inputs.flatMap(({ data }) => [...data].map(undone));
  const low = Math.min(...values), high = Math.max(...values), room = 0.15 * (high - low);
  return { low: low - room, high: high + room };
}

const middle = (slider) => Number(slider.max) / 2;
const position = (slider) => Number(slider.value) / middle(slider) - 1;

class Explorer {
  constructor(figure, described, inputs) {
    Object.assign(this, { described, inputs, random: randomNumbers(1) });
    this.noise = inputs.map(() => Array(described.noise).fill(0)); // of each input
    this.canvases = [...figure.querySelectorAll("canvas")];
    this.sliders = [...figure.querySelectorAll("input[type=range]")];
    this.outputs = [...figure.querySelectorAll("output")];
    this.choices = [...figure.querySelectorAll("select")];
    if (described.kind === "series") Object.assign(described, limits(inputs, described));
    this.sliders.forEach((slider, i) => slider.addEventListener("input", () => this.move(i)));
    this.choices.forEach((select, i) => select.addEventListener("change", () => this.choose(i)));
    figure.querySelector("[data-do=random]").addEventListener("click", () => this.drawAtRandom());
    figure.querySelector("[data-do=reset]").addEventListener("click", () => this.reset());
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.paint());
  }

  paint() {
    const paintOne = this.described.kind === "series" ? paintSeries : paintImage;
    this.inputs.forEach((input, n) => {
      paintOne(this.canvases[n], transformed(input, this.described, this.noise[n]), this.described);
    });
  }

  tell(i, text) {
    this.outputs[i].textContent = text;
    this.sliders[i].setAttribute("aria-valuetext", text);
  }

  tellPosition(i) {
    const { texts } = this.described.sliders[i], share = position(this.sliders[i]);
    const signed = `${share > 0 ? "+" : ""}${share.toFixed(2)} of the range`;
    this.tell(i, texts ? texts[Number(this.sliders[i].value)] : signed);
  }

  // Brings all inputs to the position of a slider, in its direction; the directions are at right angles to each other.
  move(i) {
    const { direction } = this.described.sliders[i], wanted = position(this.sliders[i]);
    for (const noise of this.noise) {
      const before = direction.reduce((sum, d, k) => sum + d * noise[k], 0);
      direction.forEach((d, k) => (noise[k] += d * (wanted - before)));
    }
    this.tellPosition(i);
    this.paint();
  }

  choose(i) {
    const { start } = this.described.choices[i], { value } = this.choices[i];
    for (const noise of this.noise) noise[start] = value === "" ? 2 * this.random() - 1 : FIRST_OUTCOME + Number(value);
    this.paint();
  }

  drawAtRandom() {
    for (const noise of this.noise) noise.forEach((_, k) => (noise[k] = 2 * this.random() - 1));
    this.sliders.forEach((slider, i) => {
      slider.value = middle(slider);
      this.tell(i, "each its own");
    });
    for (const select of this.choices) select.value = "";
    this.paint();
  }

  reset() {
    for (const noise of this.noise) noise.fill(0);
    this.sliders.forEach((slider, i) => {
      slider.value = middle(slider);
      this.tellPosition(i);
    });
    for (const select of this.choices) select.value = "0";
    this.paint();
  }
}

async function explore(figure) {
  const described = JSON.parse(figure.querySelector("script").textContent);
  const inputs = described.kind === "series" ? readSeries(described) : await readImages(described);
  figure.explorer = new Explorer(figure, described, inputs);
  figure.explorer.drawAtRandom();
  figure.dataset.ready = "yes";
}

for (const figure of document.querySelectorAll(".explorer")) explore(figure);
