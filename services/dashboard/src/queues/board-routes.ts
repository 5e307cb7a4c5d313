import type { BoardQueues } from '@carillon/queue/board-queues';
import { z } from 'zod';
import { ConsoleError, type ConsoleRoute, defineRoute, hasRole, notFound } from '../http/route.ts';
import { type Board, createBoard } from './bull-board.ts';

/** Changes that operators may make in Bull Board, with their actions in the audit log. All others are refused. */
const ALLOWED: Record<string, string> = {
  'put /api/queues/:queueName/:jobId/retry': 'queue.retry',
  'put /api/queues/:queueName/retry/:queueStatus': 'queue.retry-all',
  'put /api/queues/:queueName/:jobId/promote': 'queue.promote',
  'put /api/queues/:queueName/promote': 'queue.promote-all',
};
/** Lists all clients of Redis for each queue. The console's own page shows which queues have a worker. */
const LEFT_OUT = '/api/queues/:queueName/workers';
const REFUSED =
  'The console does not allow this: jobs are hints, and what they work on is in MongoDB. Only retry and promote are allowed.';

type BoardRoute = Board['routes'][number];

/**
 * Returns the routes of Bull Board's API as routes of the console, so that session, CSRF token, role and audit log are
 * those of all others. Nothing is connected before the first request.
 *
 * @param openQueues opens the queues; called at the first request
 * @param environment name of the installation
 */
export function boardRoutes(
  openQueues: () => Promise<BoardQueues>,
  environment: string,
): ConsoleRoute[] {
  const boards = { full: createBoard(environment), readOnly: createBoard(environment) };
  let opening: Promise<BoardQueues> | undefined;

  async function open(): Promise<BoardQueues> {
    const queues = await openQueues();
    boards.full.setQueues(queues, false);
    boards.readOnly.setQueues(queues, true);
    return queues;
  }

  return boards.full.routes.flatMap((route, index) =>
    [route.method].flat().flatMap((method) =>
      withoutLeftOut(route).map((path) => {
        const allowed = ALLOWED[`${method} ${path}`];
        const isRead = method === 'get';
        return defineRoute({
          method,
          path: path.replace(/^\/api/, '/bull-board'),
          role: isRead ? 'viewer' : 'operator',
          account: 'installation',
          input: z.looseObject({}),
          ...(!isRead && { audit: allowed ?? 'queue.refused' }),
          async handle({ input, operator }) {
            if (!isRead && allowed === undefined) throw new ConsoleError('FORBIDDEN', REFUSED);
            opening ??= open().catch((error: unknown) => {
              opening = undefined;
              throw error;
            });
            const { isReady } = await opening;
            const board = hasRole(operator.role, 'operator') ? boards.full : boards.readOnly;
            const { handler } = board.routes[index] ?? route;
            const request = board.createRequest(splitInput(path, input));
            return run(() => handler(request), { isReady, isRead });
          },
        });
      }),
    ),
  );
}

function withoutLeftOut({ route }: BoardRoute): string[] {
  return [route].flat().filter((path) => path !== LEFT_OUT);
}

/** Takes the parameters of the path out of the fields; the others are the query. */
function splitInput(path: string, input: Record<string, unknown>) {
  const names = new Set([...path.matchAll(/:(\w+)/g)].map(([, name]) => name));
  const entries = Object.entries(input);
  return {
    params: Object.fromEntries(entries.filter(([name]) => names.has(name))),
    query: Object.fromEntries(entries.filter(([name]) => !names.has(name))),
  };
}

/** Runs a handler of Bull Board. @throws ConsoleError for its error responses */
async function run(
  handle: () => ReturnType<BoardRoute['handler']>,
  { isReady, isRead }: { isReady: () => boolean; isRead: boolean },
): Promise<unknown> {
  const away = new ConsoleError(
    'UNAVAILABLE',
    'Redis does not respond: the queues can’t be read.',
    5,
  );
  // BullMQ would wait for the connection.
  if (!isReady()) throw away;
  let result: Awaited<ReturnType<BoardRoute['handler']>>;
  try {
    result = await handle();
  } catch (error) {
    if (!isReady()) throw away;
    if (isRead) throw error;
    // BullMQ refuses what does not fit the job's state.
    throw new ConsoleError('CONFLICT', 'The job is no longer in a state that allows this.');
  }
  const { status = 200, body } = result;
  if (status < 400) return body;
  if (status === 404) throw notFound();
  throw new ConsoleError(
    status === 400 ? 'INVALID_PARAM' : 'FORBIDDEN',
    `Bull Board refuses this request: ${JSON.stringify((body as { error?: unknown }).error)}`,
  );
}
