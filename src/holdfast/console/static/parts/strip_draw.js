/**
 * Draws a strip on a canvas: bars, hatched estimates, gaps, what retention took, marks, axis. It keeps no state.
 *
 *     marks        ◆      ▼  ▲     ▣
 *     bars      ▒▒▒▁▂▅▇▅      ▂▃▅░▇░▅      ▒ not kept · blank: the broker did not run · ░ estimate
 *     axis         13:00        14:00
 *
 * Nothing is told by colour alone: an estimate is hatched and has a whisker, a mark has a shape of its own.
 */
import { duration, short } from "./format.js";
import { ticks, toX } from "./strip_scale.js";

/** @typedef {import("./strip_scale.js").Range} Range */
/**
 * @typedef {object} Density
 * @property {number} from_us
 * @property {number} to_us
 * @property {number} step_us
 * @property {number[]} counts
 * @property {number[]} errors
 * @property {boolean} exact
 * @property {boolean} done
 * @property {number} total
 * @property {number} looked_at
 * @property {number} erased_at_most
 * @property {number} lost_at_most
 * @property {number | null} lost_before_us
 * @property {[number, number][]} gaps
 * @property {number[]} generations_us
 * @property {number[]} [erasures_us]
 */
/** @typedef {"stopped" | "restarted" | "drops" | "generation" | "erased" | "backup"} MarkKind */
/** @typedef {{at_us: number, kind: MarkKind, text: string}} Mark */
/**
 * @typedef {object} Picture
 * @property {Range} view
 * @property {Density | null} density
 * @property {Mark[]} marks
 * @property {number[]} hits times of messages that a search found
 * @property {Range | null} window the chosen range, in the strip of everything
 * @property {Range | null} selection what is being dragged
 * @property {number | null} hover_us
 */
/** @typedef {Record<"bar" | "estimate" | "lost" | "ground" | "gap" | "text" | "grid" | "accent" | "frame" | "warn" | "veil" | "hit", string>} Palette */

export const TOP = 18;
export const BOTTOM = 20;

/** The colours of the theme that holds now. @param {Element} element @returns {Palette} */
export function paletteOf(element) {
  const style = getComputedStyle(element);
  const names = /** @type {(keyof Palette)[]} */ (["bar", "estimate", "lost", "ground", "gap", "text", "grid", "accent", "frame", "warn", "veil", "hit"]);
  return /** @type {Palette} */ (Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--strip-${name}`).trim() || "#888"])));
}

/**
 * @param {CanvasRenderingContext2D} ctx
 * @param {number} width CSS pixels
 * @param {number} height CSS pixels
 * @param {number} ratio device pixels of one CSS pixel
 * @param {Picture} picture
 * @param {Palette} palette
 * @param {string} font
 */
export function drawStrip(ctx, width, height, ratio, picture, palette, font) {
  ctx.setTransform(ratio, 0, 0, ratio, 0, 0);
  ctx.clearRect(0, 0, width, height);
  const floor = height - BOTTOM;
  const { view, density } = picture;
  const x = (/** @type {number} */ at) => toX(view, width, at);
  ctx.fillStyle = palette.ground;
  ctx.fillRect(0, TOP, width, floor - TOP);
  ctx.font = font;
  drawAxis(ctx, width, height, view, palette);
  if (density) {
    drawGaps(ctx, x, floor, width, density, palette);
    drawLost(ctx, x, floor, width, ratio, density, palette);
    drawBars(ctx, x, floor, width, ratio, density, palette, picture.hover_us);
  }
  ctx.fillStyle = palette.grid;
  ctx.fillRect(0, floor, width, 1);
  drawHits(ctx, x, floor, width, picture.hits, palette);
  drawMarks(ctx, x, floor, width, picture.marks, palette);
  if (picture.window) drawWindow(ctx, x, floor, width, picture.window, palette);
  if (density) labelLost(ctx, x, floor, width, density, palette);
  if (picture.selection) drawSelection(ctx, x, floor, picture.selection, palette);
}

/** @param {CanvasRenderingContext2D} ctx @param {number} width @param {number} height @param {Range} view @param {Palette} palette */
function drawAxis(ctx, width, height, view, palette) {
  ctx.textBaseline = "middle";
  ctx.textAlign = "left";
  for (const tick of ticks(view, width)) {
    const at = Math.round(toX(view, width, tick.at_us)) + 0.5;
    ctx.strokeStyle = palette.grid;
    ctx.beginPath();
    ctx.moveTo(at, TOP);
    ctx.lineTo(at, height - BOTTOM + 6);
    ctx.stroke();
    const wide = ctx.measureText(tick.label).width;
    if (at + 5 + wide > width) continue;
    ctx.fillStyle = palette.text;
    ctx.globalAlpha = 1;
    ctx.fillText(tick.label, at + 4, height - BOTTOM / 2 + 2);
  }
}

/** @typedef {(at_us: number) => number} ToX */

/** @param {CanvasRenderingContext2D} ctx @param {ToX} x @param {number} floor @param {number} width @param {Density} density @param {Palette} palette */
function drawGaps(ctx, x, floor, width, density, palette) {
  for (const [from, to] of density.gaps) {
    const left = Math.max(0, x(from));
    const right = Math.min(width, x(to));
    if (right <= left) continue;
    ctx.fillStyle = palette.gap;
    ctx.fillRect(left, TOP, Math.max(1, right - left), floor - TOP);
    const text = "did not run";
    if (right - left > ctx.measureText(text).width + 12) {
      ctx.fillStyle = palette.text;
      ctx.textAlign = "center";
      ctx.fillText(text, (left + right) / 2, (TOP + floor) / 2);
      ctx.textAlign = "left";
    }
  }
}

/**
 * The grey edge: what retention took.
 * @param {CanvasRenderingContext2D} ctx @param {ToX} x @param {number} floor @param {number} width @param {number} ratio
 * @param {Density} density @param {Palette} palette
 */
function drawLost(ctx, x, floor, width, ratio, density, palette) {
  if (density.lost_before_us === null || !density.lost_at_most) return;
  const right = Math.min(width, x(density.lost_before_us));
  if (right <= 0) return;
  ctx.fillStyle = palette.gap;
  ctx.fillRect(0, TOP, right, floor - TOP);
  ctx.fillStyle = dots(ctx, palette.lost, ratio);
  ctx.fillRect(0, TOP, right, floor - TOP);
  ctx.fillStyle = palette.lost;
  ctx.fillRect(Math.max(0, right - 1), TOP, 1, floor - TOP);
}

/**
 * The most that retention took, over the veil of the window: an edge has to be read wherever the range is.
 * @param {CanvasRenderingContext2D} ctx @param {ToX} x @param {number} floor @param {number} width @param {Density} density @param {Palette} palette
 */
function labelLost(ctx, x, floor, width, density, palette) {
  if (density.lost_before_us === null || !density.lost_at_most) return;
  const right = Math.min(width, x(density.lost_before_us));
  const text = `≤ ${short(density.lost_at_most)}`;
  const wide = ctx.measureText(text).width;
  if (right < wide + 10) return;
  const middle = (TOP + floor) / 2;
  ctx.fillStyle = palette.gap;
  ctx.fillRect(right / 2 - wide / 2 - 4, middle - 9, wide + 8, 18);
  ctx.fillStyle = palette.text;
  ctx.textAlign = "center";
  ctx.fillText(text, right / 2, middle);
  ctx.textAlign = "left";
}

/**
 * @param {CanvasRenderingContext2D} ctx @param {ToX} x @param {number} floor @param {number} width @param {number} ratio
 * @param {Density} density @param {Palette} palette @param {number | null} hover_us
 */
function drawBars(ctx, x, floor, width, ratio, density, palette, hover_us) {
  const most = Math.max(1, ...density.counts);
  const room = floor - TOP - 4;
  const hatch = hatching(ctx, palette.estimate, ratio);
  const px = (/** @type {number} */ value) => Math.round(value * ratio) / ratio;
  density.counts.forEach((count, i) => {
    if (!count) return;
    const from = density.from_us + i * density.step_us;
    const left = px(Math.max(0, x(from)));
    const right = px(Math.min(width, x(Math.min(from + density.step_us, density.to_us))));
    if (right <= 0 || left >= width) return;
    const wide = Math.max(1 / ratio, right - left - (right - left >= 3 ? 1 : 0));
    const tall = Math.max(1.5, (count / most) * room);
    const error = density.errors[i] ?? 0;
    const hovered = hover_us !== null && hover_us >= from && hover_us < from + density.step_us;
    ctx.fillStyle = error > 0 ? hatch : palette.bar;
    if (hovered) ctx.fillStyle = palette.accent;
    ctx.fillRect(left, floor - tall, wide, tall);
    if (error > 0) {
      ctx.fillStyle = palette.estimate;
      ctx.fillRect(left, floor - tall, wide, 1);
      if (wide >= 3) whisker(ctx, left + wide / 2, floor, room, most, count, error, palette);
    }
  });
  if (floor - TOP < 80) return;
  const text = `${short(most)} in ${duration(density.step_us / 1e6)}`;
  const wide = ctx.measureText(text).width;
  ctx.fillStyle = palette.ground;
  ctx.globalAlpha = 0.85;
  ctx.fillRect(width - wide - 10, TOP + 1, wide + 10, 15);
  ctx.globalAlpha = 1;
  ctx.fillStyle = palette.text;
  ctx.fillText(text, width - wide - 5, TOP + 9);
}

/**
 * The error of an estimate, as a line from the least to the most it can be.
 * @param {CanvasRenderingContext2D} ctx @param {number} at @param {number} floor @param {number} room @param {number} most
 * @param {number} count @param {number} error @param {Palette} palette
 */
function whisker(ctx, at, floor, room, most, count, error, palette) {
  const low = floor - (Math.max(0, count - error) / most) * room;
  const high = Math.max(TOP, floor - ((count + error) / most) * room);
  ctx.fillStyle = palette.text;
  ctx.globalAlpha = 0.55;
  ctx.fillRect(at - 0.5, high, 1, Math.max(1, low - high));
  ctx.globalAlpha = 1;
}

/** @param {CanvasRenderingContext2D} ctx @param {ToX} x @param {number} floor @param {number} width @param {number[]} hits @param {Palette} palette */
function drawHits(ctx, x, floor, width, hits, palette) {
  ctx.fillStyle = palette.hit;
  for (const at of hits) {
    const left = x(at);
    if (left >= 0 && left <= width) ctx.fillRect(left - 1, floor - 1, 2, 6);
  }
}

/** @param {CanvasRenderingContext2D} ctx @param {ToX} x @param {number} floor @param {number} width @param {Mark[]} marks @param {Palette} palette */
function drawMarks(ctx, x, floor, width, marks, palette) {
  for (const mark of marks) {
    const at = Math.round(x(mark.at_us));
    if (at < 0 || at > width) continue;
    const drop = mark.kind === "drops" || mark.kind === "erased";
    ctx.strokeStyle = drop ? palette.warn : palette.text;
    ctx.fillStyle = ctx.strokeStyle;
    if (mark.kind === "generation") {
      ctx.globalAlpha = 0.6;
      ctx.setLineDash([1, 3]);
      line(ctx, [[at + 0.5, TOP - 6], [at + 0.5, floor]]);
      ctx.setLineDash([]);
      ctx.globalAlpha = 1;
    } else shape(ctx, mark.kind, at, 9);
  }
}

/**
 * The sign of a mark, 8 pixels large, around (x, y).
 * @param {CanvasRenderingContext2D} ctx @param {MarkKind} kind @param {number} x @param {number} y
 */
export function shape(ctx, kind, x, y) {
  if (kind === "stopped") fill(ctx, [[x - 5, y - 4], [x + 5, y - 4], [x, y + 4]]);
  else if (kind === "restarted") fill(ctx, [[x - 5, y + 4], [x + 5, y + 4], [x, y - 4]]);
  else if (kind === "drops") fill(ctx, [[x - 5, y], [x, y - 5], [x + 5, y], [x, y + 5]]);
  else if (kind === "erased") line(ctx, [[x - 5, y + 3], [x - 2, y - 3], [x + 1, y + 3], [x + 5, y - 3]], 2);
  else if (kind === "backup") {
    ctx.lineWidth = 1.5;
    ctx.strokeRect(x - 4, y - 4, 8, 8);
    ctx.fillRect(x - 1.5, y - 1.5, 3, 3);
    ctx.lineWidth = 1;
  }
}

/** @param {CanvasRenderingContext2D} ctx @param {number[][]} points */
function fill(ctx, points) {
  ctx.beginPath();
  points.forEach(([px, py], i) => (i ? ctx.lineTo(px, py) : ctx.moveTo(px, py)));
  ctx.closePath();
  ctx.fill();
}

/** @param {CanvasRenderingContext2D} ctx @param {number[][]} points @param {number} [width] */
function line(ctx, points, width = 1) {
  ctx.lineWidth = width;
  ctx.beginPath();
  points.forEach(([px, py], i) => (i ? ctx.lineTo(px, py) : ctx.moveTo(px, py)));
  ctx.stroke();
  ctx.lineWidth = 1;
}

/** @param {CanvasRenderingContext2D} ctx @param {ToX} x @param {number} floor @param {number} width @param {Range} window @param {Palette} palette */
function drawWindow(ctx, x, floor, width, window, palette) {
  const left = Math.max(0, x(window.from));
  const right = Math.min(width, Math.max(left + 2, x(window.to)));
  ctx.fillStyle = palette.veil;
  ctx.fillRect(0, TOP, left, floor - TOP);
  ctx.fillRect(right, TOP, width - right, floor - TOP);
  ctx.strokeStyle = palette.frame;
  ctx.lineWidth = 1.5;
  ctx.strokeRect(left + 0.75, TOP + 0.75, Math.max(1, right - left - 1.5), floor - TOP - 0.75);
  ctx.lineWidth = 1;
}

/** @param {CanvasRenderingContext2D} ctx @param {ToX} x @param {number} floor @param {Range} selection @param {Palette} palette */
function drawSelection(ctx, x, floor, selection, palette) {
  const left = x(selection.from);
  const right = x(selection.to);
  ctx.fillStyle = palette.frame;
  ctx.globalAlpha = 0.14;
  ctx.fillRect(left, TOP, right - left, floor - TOP);
  ctx.globalAlpha = 1;
  ctx.fillRect(left, TOP, 1, floor - TOP);
  ctx.fillRect(right - 1, TOP, 1, floor - TOP);
}

/** Diagonal lines, one device pixel pattern for all bars. @param {CanvasRenderingContext2D} ctx @param {string} colour @param {number} ratio */
function hatching(ctx, colour, ratio) {
  return pattern(ctx, 5, ratio, (tile) => {
    tile.strokeStyle = colour;
    tile.lineWidth = 1.3;
    for (const shift of [-5, 0, 5]) {
      tile.beginPath();
      tile.moveTo(shift - 1, 6);
      tile.lineTo(shift + 6, -1);
      tile.stroke();
    }
  });
}

/** @param {CanvasRenderingContext2D} ctx @param {string} colour @param {number} ratio */
function dots(ctx, colour, ratio) {
  return pattern(ctx, 4, ratio, (tile) => {
    tile.fillStyle = colour;
    tile.fillRect(0, 0, 1.2, 1.2);
    tile.fillRect(2, 2, 1.2, 1.2);
  });
}

/** @param {CanvasRenderingContext2D} ctx @param {number} size @param {number} ratio @param {(tile: CanvasRenderingContext2D) => void} draw */
function pattern(ctx, size, ratio, draw) {
  const canvas = document.createElement("canvas");
  canvas.width = canvas.height = Math.max(1, Math.round(size * ratio));
  const tile = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
  tile.scale(canvas.width / size, canvas.width / size);
  draw(tile);
  const made = /** @type {CanvasPattern} */ (ctx.createPattern(canvas, "repeat"));
  made.setTransform(new DOMMatrix().scale(size / canvas.width));
  return made;
}
