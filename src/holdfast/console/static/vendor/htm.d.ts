// htm binds to a function that makes elements.
declare const htm: { bind(h: unknown): (strings: TemplateStringsArray, ...values: unknown[]) => import("./preact.js").Node };
export default htm;
