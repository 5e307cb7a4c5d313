import type { ConsoleApi } from './types.ts';

/** Response to a request, by its method and its path with values: `/apps/${string}/keys`. */
export type ResponseOf<Method extends string, Path extends string> =
  RouteOf<Method, Path> extends infer Route extends keyof ConsoleApi ? ConsoleApi[Route] : never;

/** A path if a route has it, otherwise a type that no path has. */
export type Routed<Method extends string, Path extends string> = Path extends unknown
  ? [RouteOf<Method, Path>] extends [never]
    ? never
    : Path
  : never;

/** The routes of paths, where `Route` and `Path` may be unions. */
type RouteOf<
  Method extends string,
  Path extends string,
  Route = keyof ConsoleApi,
> = Path extends unknown
  ? Route extends `${Lowercase<Method>} ${infer Pattern}`
    ? Fits<Path, Pattern> extends true
      ? Route
      : never
    : never
  : never;

/** Compares a path with that of a route, part by part: `:app` stands for any one part. */
type Fits<Path, Pattern> = Pattern extends `${infer Part}/${infer Rest}`
  ? Path extends `${infer PathPart}/${infer PathRest}`
    ? [FitsPart<PathPart, Part>, Fits<PathRest, Rest>] extends [true, true]
      ? true
      : false
    : false
  : Path extends `${string}/${string}`
    ? false
    : FitsPart<Path, Pattern>;

type FitsPart<PathPart, Part> = Part extends `:${string}`
  ? true
  : PathPart extends Part
    ? true
    : false;
