/** The live data that a tab subscribes to. */
export interface LiveSubscription {
  /** Id of the operator whose session the tab shows; absent if it shows none. */
  operator?: string;
  overview: boolean;
  pushes: readonly string[];
}

/** Sent to the tabs. */
export type HubMessage =
  | { kind: 'overview'; data: string }
  | { kind: 'push'; data: string }
  /** The server is there, but not what the overview is read from. */
  | { kind: 'unavailable'; data: string }
  /** `since`: when the data began to be live, or the last that came before they stopped. */
  | { kind: 'status'; live: boolean; since: number };

/** Callbacks of a stream of server-sent events. */
export interface StreamHandlers {
  onOpen(): void;
  onEvent(name: 'overview' | 'unavailable' | 'push', data: string): void;
  onError(): void;
}

/** Means of a hub, of which a test can give its own. */
export interface HubNeeds {
  open(url: string, handlers: StreamHandlers): { close(): void };
  now(): number;
  /** Runs a function later, and returns how to cancel that. */
  after(ms: number, run: () => void): () => void;
}

/** The server sends an event every 5 seconds; three missing in a row mean that the data have stopped. */
const SILENCE_MS = 17_000;
const RETRY_MS = [1_000, 3_000, 10_000, 30_000];
/** Pushes that the server watches for one stream. */
const MAX_PUSHES = 100;

type Receive = (message: HubMessage) => void;

/**
 * Creates a hub: one stream for all tabs, as HTTP/1.1 allows a browser six connections. The stream is open only while
 * a tab has a subscription.
 */
export function createHub(needs: HubNeeds) {
  const tabs = new Map<Receive, LiveSubscription>();
  let url: string | undefined;
  let stream: { close(): void } | undefined;
  let cancel = () => {};
  let failures = 0;
  /** Unknown until a stream of this address has opened or failed. */
  let status: { live: boolean; since: number } | undefined;
  let operator: string | undefined;

  // A tab that shows the login must not get the data of the operator before.
  const report = (message: HubMessage) => {
    for (const [receive, subscription] of tabs)
      if (urlFor([subscription]) !== undefined) receive(message);
  };
  const setStatus = (live: boolean, since: number) => {
    if (status?.live === live) return;
    status = { live, since };
    report({ kind: 'status', ...status });
  };
  const close = () => {
    cancel();
    stream?.close();
    stream = undefined;
  };
  let lastAt = needs.now();
  const fail = () => {
    close();
    setStatus(false, lastAt);
    const wait = RETRY_MS[Math.min(failures, RETRY_MS.length - 1)] ?? 0;
    failures += 1;
    cancel = needs.after(wait, open);
  };
  const isAlive = () => {
    lastAt = needs.now();
    cancel();
    cancel = needs.after(SILENCE_MS, fail);
    setStatus(true, lastAt);
  };
  function open(): void {
    if (url === undefined) return;
    cancel = needs.after(SILENCE_MS, fail);
    stream = needs.open(url, {
      onOpen: isAlive,
      onEvent: (name, data) => {
        failures = 0;
        isAlive();
        report({ kind: name, data });
      },
      onError: fail,
    });
  }
  const update = () => {
    const wanted = urlFor([...tabs.values()]);
    if (wanted === url) return;
    close();
    url = wanted;
    status = undefined;
    failures = 0;
    open();
  };
  return {
    /**
     * Sets the subscription of a tab, and reports the state of the stream: the tab may have changed its page. For a tab's
     * new operator a new stream is opened, because a stream has the data of the session that opened it.
     */
    set(tab: Receive, subscription: LiveSubscription): void {
      const { operator: next = operator } = subscription;
      if (next !== operator && next !== tabs.get(tab)?.operator) {
        operator = next;
        url = '';
      }
      tabs.set(tab, subscription);
      update();
      if (status !== undefined) tab({ kind: 'status', ...status });
    },
    remove(tab: Receive): void {
      tabs.delete(tab);
      update();
    },
  };
}
function urlFor(subscriptions: readonly LiveSubscription[]): string | undefined {
  const pushes = [...new Set(subscriptions.flatMap(({ pushes: ids }) => ids))].slice(0, MAX_PUSHES);
  if (pushes.length === 0 && !subscriptions.some(({ overview }) => overview)) return undefined;
  const query = new URLSearchParams(pushes.map((push): [string, string] => ['push', push]));
  return pushes.length === 0 ? '/api/events' : `/api/events?${query}`;
}
