import type { Routing } from '../http/route.ts';
import type { Routes } from '../http/server.ts';
import { type AcceptDeps, acceptPush } from './accept-push.ts';
import { parsePush } from './parse-push.ts';
import { pushStatus, type StatusDeps } from './push-status.ts';

/** 100,000 tokens of the longest kind, and the rest. */
const PUSH_BODY_BYTES = 8 * 1024 * 1024;

/** Sending and asking after pushes (specification 4.1, 4.2). */
export function pushRoutes(routing: Routing, deps: AcceptDeps & StatusDeps): Routes {
  return (router) => {
    router.post(
      '/push',
      routing.backend({ bodyBytes: PUSH_BODY_BYTES }, ({ body }, { app }) =>
        acceptPush(deps, app._id, parsePush(body, app, deps.now())),
      ),
    );
    router.get(
      '/pushes/:id',
      routing.backend({}, ({ params }, { app }) => pushStatus(deps, app._id, params.id ?? '')),
    );
  };
}
