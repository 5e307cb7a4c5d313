import { connect } from 'node:net';

const DEADLINE_MS = 1000;

/** Does an HTTP server answer 200 there within a second? */
export async function answersOk(url: string): Promise<boolean> {
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(DEADLINE_MS) });
    await response.arrayBuffer();
    return response.ok;
  } catch {
    return false;
  }
}

/** Does something accept TCP connections there within a second? */
export function acceptsConnections(host: string, port: number): Promise<boolean> {
  return converse(host, port, '', () => true);
}

/** Does a Redis there answer PING, which it refuses while it loads its data? */
export function answersPing(host: string, port: number): Promise<boolean> {
  return converse(host, port, 'PING\r\n', (answer) => answer.startsWith('+PONG'));
}

/** Does a Redis there answer at all? One that asks for a password or loads its data refuses a PING. */
export function speaksRedis(host: string, port: number): Promise<boolean> {
  return converse(host, port, 'PING\r\n', (answer) => /^[+-]/.test(answer));
}

function converse(
  host: string,
  port: number,
  say: string,
  isGood: (answer: string) => boolean,
): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host, port, timeout: DEADLINE_MS });
    const end = (good: boolean) => {
      socket.destroy();
      resolve(good);
    };
    socket.once('error', () => end(false));
    socket.once('timeout', () => end(false));
    socket.once('close', () => end(false));
    socket.once('data', (answer) => end(isGood(String(answer))));
    socket.once('connect', () => (say === '' ? end(true) : socket.write(say)));
  });
}
