import { BROWSER_NEEDS } from './browser-stream.ts';
import { createHub, type HubMessage, type LiveSubscription } from './hub.ts';

/** Interval at which a tab reports to the shared worker that it is open. */
const PRESENT_MS = 45_000;
const NOTHING: LiveSubscription = { overview: false, pushes: [] };

type Listener = (message: HubMessage) => void;

const listeners = new Map<Listener, LiveSubscription>();
let sendSubscription: ((subscription: LiveSubscription) => void) | undefined;

/**
 * Listens to the live data. All tabs share one stream; where the browser has no shared workers, each has its own.
 *
 * @returns how to stop listening
 */
export function listenLive(subscription: LiveSubscription, listener: Listener): () => void {
  listeners.set(listener, subscription);
  update();
  return () => {
    listeners.delete(listener);
    update();
  };
}

function update(): void {
  sendSubscription ??= connect();
  sendSubscription(subscriptionOfTab());
}

function subscriptionOfTab(): LiveSubscription {
  const all = [...listeners.values()];
  const operator = all.find((one) => one.operator !== undefined)?.operator;
  return {
    ...(operator !== undefined && { operator }),
    overview: all.some(({ overview }) => overview),
    pushes: all.flatMap(({ pushes }) => pushes),
  };
}

function receive(message: HubMessage): void {
  for (const listener of [...listeners.keys()]) listener(message);
}

function connect(): (subscription: LiveSubscription) => void {
  if (typeof SharedWorker === 'undefined') {
    const hub = createHub(BROWSER_NEEDS);
    return (subscription) => hub.set(receive, subscription);
  }
  const worker = new SharedWorker(new URL('./stream-worker.ts', import.meta.url), {
    type: 'module',
    name: 'carillon-live',
  });
  worker.port.onmessage = ({ data }: MessageEvent<HubMessage>) => receive(data);
  setInterval(() => worker.port.postMessage(subscriptionOfTab()), PRESENT_MS);
  window.addEventListener('pagehide', () => worker.port.postMessage(NOTHING));
  window.addEventListener('pageshow', () => worker.port.postMessage(subscriptionOfTab()));
  return (subscription) => worker.port.postMessage(subscription);
}
