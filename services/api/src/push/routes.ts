import type { Routing } from '../http/route.ts';
import type { Routes } from '../http/server.ts';
import { type AcceptDeps, acceptPush, answerAgain } from './accept-push.ts';
import { type DeleteDeps, deletePush } from './delete-push.ts';
import { idempotencyOf } from './idempotency.ts';
import { parsePush } from './parse-push.ts';
import { pushStatus, type StatusDeps } from './push-status.ts';

/** 100,000 tokens of the longest kind, and the rest. */
const PUSH_BODY_BYTES = 8 * 1024 * 1024;

/** Sending, asking after and deleting pushes (specification 4.1 to 4.3). */
export function pushRoutes(routing: Routing, deps: AcceptDeps & StatusDeps & DeleteDeps): Routes {
  return (router) => {
    router.post(
      '/push',
      routing.backend({ bodyBytes: PUSH_BODY_BYTES }, async ({ body, header }, { app }) => {
        const idempotency = idempotencyOf(header('idempotency-key'), body.text);
        const again = await answerAgain(deps, app._id, idempotency);
        return again ?? acceptPush(deps, app._id, parsePush(body, app, deps.now()), idempotency);
      }),
    );
    router.get(
      '/pushes/:id',
      routing.backend({}, ({ params }, { app }) => pushStatus(deps, app._id, params.id ?? '')),
    );
    router.delete(
      '/pushes/:id',
      routing.backend({}, ({ params }, { app }) => deletePush(deps, app._id, params.id ?? '')),
    );
  };
}
