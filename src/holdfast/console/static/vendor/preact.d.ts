// What this console uses of Preact, for the type checker.
export type Child = unknown;
export interface Node { type: unknown; props: Record<string, unknown>; key: unknown }
export function h(type: unknown, props: unknown, ...children: Child[]): Node;
export function render(node: Child, parent: Element): void;
export function createPortal(node: Child, parent: Element): Node;
export function createContext<T>(value: T): { Provider: unknown; Consumer: unknown; readonly initial: T };
export const Fragment: unknown;
