// Drawing very many jobs: those that are wide enough become rectangles; the others add what they cover of
// each pixel to a grid, which is coloured once. A frame costs one pass over the visible jobs and one over
// the pixels, however many jobs share a pixel.

Pliant.Raster = class {
  constructor() {
    this.cover = new Float32Array(0);
    this.canvas = document.createElement("canvas");
  }

  // A grid of width x height pixels for that many states, empty.
  begin(width, height, states) {
    this.width = width;
    this.height = height;
    this.states = states;
    const size = width * height * states;
    if (this.cover.length < size) this.cover = new Float32Array(size);
    else this.cover.fill(0, 0, size);
  }

  // Adds what a rectangle covers of each pixel, for one state.
  add(x0, y0, x1, y1, state) {
    const { width, height, cover, states } = this;
    x0 = Math.max(0, x0); x1 = Math.min(width, x1);
    y0 = Math.max(0, y0); y1 = Math.min(height, y1);
    if (x0 >= x1 || y0 >= y1) return;
    const left = Math.floor(x0), right = Math.min(width - 1, Math.ceil(x1) - 1);
    const top = Math.floor(y0), bottom = Math.min(height - 1, Math.ceil(y1) - 1);
    for (let y = top; y <= bottom; y++) {
      const tall = Math.min(y + 1, y1) - Math.max(y, y0);
      let at = (y * width + left) * states + state;
      for (let x = left; x <= right; x++, at += states) cover[at] += tall * (Math.min(x + 1, x1) - Math.max(x, x0));
    }
  }

  // Colours the grid, fills `solid` rectangles over it (x, y, width, height, colour as from Pliant.abgr)
  // and puts it at (x, y).
  paint(context, x, y, colours, solid) {
    const { width, height, cover, canvas, states } = this;
    if (width < 1 || height < 1) return;
    if (canvas.width !== width || canvas.height !== height) { canvas.width = width; canvas.height = height; }
    const target = canvas.getContext("2d"), image = target.createImageData(width, height);
    const pixels = new Uint32Array(image.data.buffer);
    for (let at = 0, pixel = 0, end = width * height * states; at < end; at += states, pixel++) {
      let total = 0;
      for (let state = 0; state < states; state++) total += cover[at + state];
      if (total === 0) continue;
      let r = 0, g = 0, b = 0;
      for (let state = 0; state < states; state++) {
        const share = cover[at + state] / total, colour = colours[state];
        r += colour[0] * share; g += colour[1] * share; b += colour[2] * share;
      }
      // A touch above what is covered, so that a lonely short job can be seen at all.
      const opacity = 255 * Math.min(1, .12 + total * .88);
      pixels[pixel] = opacity << 24 | b << 16 | g << 8 | r;
    }
    for (let i = 0; i < solid.length; i += 5) {
      const left = Math.max(0, Math.round(solid[i])), right = Math.min(width, Math.round(solid[i] + solid[i + 2]));
      const top = Math.max(0, Math.round(solid[i + 1])), bottom = Math.min(height, Math.round(solid[i + 1] + solid[i + 3]));
      for (let row = top; row < bottom; row++) pixels.fill(solid[i + 4], row * width + left, row * width + right);
    }
    target.putImageData(image, 0, 0);
    context.drawImage(canvas, x, y, width, height);
  }
};

// White or nearly black, whichever reads better on a colour.
Pliant.textOn = (hex) => {
  const linear = (part) => part <= 10 ? part / 255 / 12.92 : ((part / 255 + .055) / 1.055) ** 2.4;
  const [r, g, b] = Pliant.rgb(hex).map(linear), light = .2126 * r + .7152 * g + .0722 * b;
  return 1.05 / (light + .05) >= (light + .05) / .058 ? "#ffffff" : "#10161f";
};

// "#rrggbb" as three numbers, and as one opaque pixel.
Pliant.rgb = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
Pliant.abgr = (hex) => { const [r, g, b] = Pliant.rgb(hex); return (255 << 24 | b << 16 | g << 8 | r) >>> 0; };
