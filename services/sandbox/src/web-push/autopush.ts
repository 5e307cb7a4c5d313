import { randomBytes } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { type WebSocket, WebSocketServer } from 'ws';
import { type Browser, createBrowser } from './browser.ts';
import { type Said, saidSchema } from './messages.ts';
import type { SimulatedBrowserDeps } from './simulated-browser.ts';

const PROTOCOL = 'push-notification';
const MOST_BROWSERS = 1_000;
const MOST_BYTES = 65_536;

/** The side of the push service that Firefox connects to (Mozilla's push protocol over WebSocket). */
export interface Autopush {
  /** Whether an upgrade request is one of a browser's. */
  isFor(request: IncomingMessage): boolean;
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void;
  stop(): void;
}

/** Makes the service; a browser that comes back within the same run gets what it missed. */
export function createAutopush(deps: SimulatedBrowserDeps): Autopush {
  const browsers = new Map<string, Browser>();
  const server = new WebSocketServer({
    noServer: true,
    maxPayload: MOST_BYTES,
    handleProtocols: (offered) => (offered.has(PROTOCOL) ? PROTOCOL : false),
  });

  function find(uaid: string | undefined): Browser {
    const known = uaid === undefined ? undefined : browsers.get(uaid);
    if (known !== undefined) return known;
    const browser = createBrowser(deps, randomBytes(16).toString('hex'));
    browsers.set(browser.uaid, browser);
    const oldest = browsers.keys().next().value;
    if (browsers.size > MOST_BROWSERS && oldest !== undefined) {
      browsers.get(oldest)?.end();
      browsers.delete(oldest);
    }
    return browser;
  }

  server.on('connection', (link) => serve(link, find));

  return {
    isFor: ({ headers }) => headers['sec-websocket-protocol']?.includes(PROTOCOL) ?? false,
    upgrade: (request, socket, head) =>
      server.handleUpgrade(request, socket, head, (link) => server.emit('connection', link)),
    stop: () => {
      for (const link of server.clients) link.terminate();
      server.close();
    },
  };
}

function serve(link: WebSocket, find: (uaid: string | undefined) => Browser): void {
  let browser: Browser | undefined;
  const say = (message: object) => link.send(JSON.stringify(message));
  link.on('error', () => undefined);
  link.once('close', () => browser?.left(say));
  link.on('message', (data) => {
    const said = readSaid(String(data));
    if (said === undefined) return;
    if (said.messageType === 'ping') return link.send('{}');
    if (said.messageType === 'hello') {
      browser = find(said.uaid);
      say({
        messageType: 'hello',
        uaid: browser.uaid,
        status: 200,
        use_webpush: true,
        broadcasts: {},
      });
      return browser.came(say);
    }
    browser?.hear(said);
  });
}

function readSaid(text: string): Said | undefined {
  try {
    const value: unknown = JSON.parse(text);
    const isPing = JSON.stringify(value) === '{}';
    return isPing ? { messageType: 'ping' } : saidSchema.safeParse(value).data;
  } catch {
    return undefined;
  }
}
