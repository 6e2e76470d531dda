// Logged pictures of one or several runs, with one slider for the step.
"use strict";
for (const place of document.querySelectorAll("[data-pictures]")) {
  const names = (place.dataset.names || "").split("\n");
  for (const set of JSON.parse(place.dataset.pictures)) {
    const head = document.createElement("h3");
    head.textContent = set.name;
    const label = document.createElement("label");
    const slider = document.createElement("input");
    const step = document.createElement("output");
    Object.assign(slider, {type: "range", min: 0, max: set.steps.length - 1, value: set.steps.length - 1});
    label.append(`${place.dataset.step} `, slider);
    const grid = document.createElement("div");
    grid.className = "pictures";
    const figures = set.runs.map((run, number) => {
      const figure = document.createElement("figure");
      const image = document.createElement("img");
      const caption = document.createElement("figcaption");
      caption.textContent = names[number] || "";
      figure.append(image, caption);
      grid.append(figure);
      return {run, image, figure};
    });
    const show = () => {
      const at = Number(slider.value);
      step.textContent = ` ${set.steps[at]}`;
      for (const {run, image, figure} of figures) {
        figure.classList.toggle("absent", run.at[at] === null);
        image.hidden = run.at[at] === null;
        if (run.at[at] === null) continue;
        image.src = `/runs/${run.uid}/picture?${new URLSearchParams({name: set.name, at: run.at[at]})}`;
        image.alt = `${set.name}, ${place.dataset.step} ${set.steps[at]}`;
      }
    };
    slider.addEventListener("input", show);
    label.append(step);
    place.append(head, label, grid);
    show();
  }
}
