// What this console uses of uPlot, for the type checker.
export default class uPlot {
  constructor(options: Record<string, unknown>, data: unknown, target: HTMLElement);
  setData(data: unknown, resetScales?: boolean): void;
  setSize(size: { width: number; height: number }): void;
  setScale(key: string, limits: { min: number; max: number }): void;
  setSeries(index: number, options: { show?: boolean; focus?: boolean }): void;
  valToPos(value: number, scale: string, canvasPixels?: boolean): number;
  posToVal(position: number, scale: string): number;
  redraw(): void;
  destroy(): void;
  readonly ctx: CanvasRenderingContext2D;
  readonly bbox: { left: number; top: number; width: number; height: number };
  readonly cursor: { idx?: number | null; left?: number; top?: number };
  readonly data: (number | null)[][];
  readonly over: HTMLElement;
  readonly root: HTMLElement;
  readonly scales: Record<string, { min?: number; max?: number }>;
  readonly select: { left: number; top: number; width: number; height: number };
}
