import { createRequire } from 'node:module';
import { dirname } from 'node:path';
import { createBullBoard } from '@bull-board/api';
import { BullMQAdapter } from '@bull-board/api/bullMQAdapter';
import { isPushId, PUSH_ID_LENGTH } from '@carillon/core/ids';
import type { BoardQueues } from '@carillon/queue/board-queues';

type ServerAdapter = Parameters<typeof createBullBoard>[0]['serverAdapter'];
type BoardRoute = Parameters<ServerAdapter['setApiRoutes']>[0][number];
type BoardRequest = NonNullable<Parameters<BoardRoute['handler']>[0]>;
type EntryRoute = Parameters<ServerAdapter['setEntryRoute']>[0];

/** Files of Bull Board's pages. */
export const BOARD_FILES = `${dirname(createRequire(import.meta.url).resolve('@bull-board/ui/package.json'))}/dist`;

/** Fields of jobs that hold ids of apps, pushes and batches, and names of tasks. Everything else is counted, not shown. */
const SHOWN_FIELDS = new Set(['fanOut', 'work', 'app', 'pushes', 'task']);

/** Bull Board's library, without a server: its routes are served by the console's own router. */
export type Board = ReturnType<typeof createBoard>;

/**
 * Creates a board whose queues are set later, so that it connects to nothing before it is used.
 *
 * @param label name of the installation, shown beside the title
 */
export function createBoard(label: string) {
  const captured: {
    routes: readonly BoardRoute[];
    entry?: EntryRoute;
    queues?: BoardRequest['queues'];
    uiConfig: BoardRequest['uiConfig'];
  } = { routes: [], uiConfig: {} };
  const serverAdapter: ServerAdapter = {
    setQueues: (queues) => keep({ queues }),
    setViewsPath: () => serverAdapter,
    setStaticPath: () => serverAdapter,
    setEntryRoute: (entry) => keep({ entry }),
    setErrorHandler: () => serverAdapter,
    setApiRoutes: (routes) => keep({ routes }),
    setUIConfig: (uiConfig) => keep({ uiConfig }),
  };
  function keep(part: Partial<typeof captured>): ServerAdapter {
    Object.assign(captured, part);
    return serverAdapter;
  }
  const { replaceQueues } = createBullBoard({
    queues: [],
    serverAdapter,
    options: {
      uiBasePath: dirname(BOARD_FILES),
      uiConfig: {
        boardTitle: 'Queues',
        // Each view would otherwise list all clients of Redis for every queue.
        showWorkers: false,
        showMetrics: false,
        hideDocsLink: true,
        locale: { lng: 'en-US' },
        miscLinks: [{ text: 'Back to the console', url: '/queues' }],
        ...(label !== '' && { environment: { label, color: '#8b1a1a', textColor: '#ffffff' } }),
      },
    },
  });
  return {
    routes: captured.routes,
    /** Shows these queues from now on. @param readOnlyMode hides the buttons that change something */
    setQueues: ({ queues }: Pick<BoardQueues, 'queues'>, readOnlyMode: boolean): void =>
      replaceQueues(queues.map((queue) => createAdapter(queue, readOnlyMode))),
    /** Completes a request of one of the routes. */
    createRequest: (parts: Pick<BoardRequest, 'params' | 'query'>): BoardRequest => ({
      ...parts,
      queues: captured.queues ?? new Map(),
      uiConfig: captured.uiConfig,
      body: {},
      headers: {},
    }),
    /** Returns the parameters of the entry page's template. @param basePath ends with a slash */
    describeEntry: (basePath: string): Record<string, string> =>
      captured.entry?.handler({ basePath, uiConfig: captured.uiConfig }).params ?? {},
  };
}

function createAdapter(queue: BoardQueues['queues'][number], readOnlyMode: boolean): BullMQAdapter {
  const adapter = new BullMQAdapter(queue, {
    readOnlyMode,
    // The library's type has no job without a link.
    externalJobUrl: ({ data }) => linkToPush(data) as { href: string },
  });
  adapter.setFormatter('data', hideTokens);
  adapter.setFormatter('name', ({ name, data }) =>
    typeof data?.app === 'string' ? `${name}, app ${data.app}` : name,
  );
  return adapter;
}

/** Returns the link to the console's page of the job's first push, which names its app; undefined if the job has none. */
function linkToPush(
  data: Record<string, unknown> | null,
): { href: string; displayText: string } | undefined {
  const ids = [data?.fanOut, data?.work, data?.pushes].flat();
  const first = ids.find((id) => typeof id === 'string') ?? '';
  // The id of a batch begins with that of its push.
  const push = first.slice(0, PUSH_ID_LENGTH);
  return isPushId(push) ? { href: `/pushes/${push}`, displayText: 'Show the push' } : undefined;
}

/** Replaces what is no id of a push or batch: the events of `presence` hold device tokens. */
function hideTokens(data: Record<string, unknown>): Record<string, unknown> {
  const entries = Object.entries(data ?? {}).map(([name, value]) => {
    if (SHOWN_FIELDS.has(name)) return [name, value];
    return [name, Array.isArray(value) ? `${value.length} entries` : 'hidden'];
  });
  return Object.fromEntries(entries);
}
