// Families that the script does not know: a slider moves through pictures that were drawn in advance.
for (const mover of document.querySelectorAll(".mover")) {
  const frames = Number(mover.dataset.frames);
  const slider = mover.querySelector("input");
  const select = mover.querySelector("select");
  const images = [...mover.querySelectorAll("img")];
  const show = () => {
    const frame = Number(slider.value);
    images.forEach((image, i) => {
      image.hidden = i !== Number(select.value);
      image.style.marginLeft = `${-100 * frame}%`; // of the width of the window
    });
    const share = (2 * frame) / (frames - 1) - 1;
    const draws = Number(select.value) === images.length - 1;
    const text = draws ? `draw ${frame + 1} of ${frames}` : `${share > 0 ? "+" : ""}${share.toFixed(1)} of the range`;
    const told = share === 0 ? "as it is" : text;
    mover.querySelector("output").textContent = told;
    slider.setAttribute("aria-valuetext", told);
  };
  slider.addEventListener("input", show);
  select.addEventListener("change", show);
  show();
}
