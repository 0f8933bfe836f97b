// What this console uses of Preact's hooks, for the type checker.
export function useState<T>(initial: T | (() => T)): [T, (next: T | ((old: T) => T)) => void];
export function useReducer<S, A>(reducer: (state: S, action: A) => S, initial: S): [S, (action: A) => void];
export function useEffect(run: () => void | (() => void), inputs?: readonly unknown[]): void;
export function useLayoutEffect(run: () => void | (() => void), inputs?: readonly unknown[]): void;
export function useMemo<T>(make: () => T, inputs?: readonly unknown[]): T;
export function useCallback<F>(callback: F, inputs?: readonly unknown[]): F;
export function useRef<T>(initial: T): { current: T };
export function useId(): string;
export function useContext<T>(context: { readonly initial: T }): T;
export function useErrorBoundary(handle?: (error: unknown) => void): [unknown, () => void];
