import { BROWSER_NEEDS } from './browser-stream.ts';
import { createHub, type HubMessage, type Wants } from './hub.ts';

/** Interval at which a tab reports to the shared worker that it is open. */
const PRESENT_MS = 45_000;
const NOTHING: Wants = { overview: false, pushes: [] };

type Listener = (message: HubMessage) => void;

const listeners = new Map<Listener, Wants>();
let sendWants: ((wants: Wants) => void) | undefined;

/**
 * Listens to the live data. All tabs share one stream; where the browser has no shared workers, each has its own.
 *
 * @returns how to stop listening
 */
export function listenLive(wants: Wants, listener: Listener): () => void {
  listeners.set(listener, wants);
  announce();
  return () => {
    listeners.delete(listener);
    announce();
  };
}

function announce(): void {
  sendWants ??= connect();
  sendWants(wantsOfTab());
}

function wantsOfTab(): Wants {
  const all = [...listeners.values()];
  return {
    overview: all.some(({ overview }) => overview),
    pushes: all.flatMap(({ pushes }) => pushes),
  };
}

function receive(message: HubMessage): void {
  for (const listener of [...listeners.keys()]) listener(message);
}

function connect(): (wants: Wants) => void {
  if (typeof SharedWorker === 'undefined') {
    const hub = createHub(BROWSER_NEEDS);
    return (wants) => hub.set(receive, wants);
  }
  const worker = new SharedWorker(new URL('./stream-worker.ts', import.meta.url), {
    type: 'module',
    name: 'carillon-live',
  });
  worker.port.onmessage = ({ data }: MessageEvent<HubMessage>) => receive(data);
  setInterval(() => worker.port.postMessage(wantsOfTab()), PRESENT_MS);
  window.addEventListener('pagehide', () => worker.port.postMessage(NOTHING));
  window.addEventListener('pageshow', () => worker.port.postMessage(wantsOfTab()));
  return (wants) => worker.port.postMessage(wants);
}
