import type { OpenRoute } from './open-route.ts';
import type { ConsoleRoute } from './route.ts';

/**
 * Responses of routes by method and path: `get /apps/:app/pushes`. They are those on the wire as long as handlers return
 * times as numbers or texts: JSON would change a Date.
 */
export type ApiOf<Route extends ConsoleRoute | OpenRoute> = {
  [One in Route as `${One['method']} ${One['path']}`]: BodyOf<One>;
};

type BodyOf<Route> =
  Route extends OpenRoute<unknown, infer Body>
    ? Body
    : Route extends ConsoleRoute<unknown, infer Output>
      ? Output
      : never;
