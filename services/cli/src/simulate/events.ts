import type { Output } from '../output.ts';

/** What a simulation tells of its devices, one line each. */
export interface Events {
  connected(token: string): void;
  disconnected(token: string): void;
  refused(token: string, why: string): void;
  push(token: string, id: string, payload: string, receivedAt: Date): void;
}

/** Makes the teller: a JSON object per line with --json, else lines for people. */
export function createEvents(output: Output): Events {
  const tell = (token: string, event: string, more: object, words: string) =>
    output.show({ event, token, ...more }, [`${token} ${words}`]);
  return {
    connected: (token) => tell(token, 'connected', {}, 'is connected'),
    disconnected: (token) => tell(token, 'disconnected', {}, 'lost its connection'),
    refused: (token, why) => tell(token, 'refused', { error: why }, `was refused: ${why}`),
    push: (token, id, payload, receivedAt) =>
      output.showText(pushEvent(token, id, payload, receivedAt), [
        `${token} got push ${id} at ${receivedAt.toISOString()}: ${payload}`,
      ]),
  };
}

/** The line of a push, its payload as it came: parsed and written again, big numbers would change. */
function pushEvent(token: string, id: string, payload: string, receivedAt: Date): string {
  const head = JSON.stringify({ event: 'push', token, id });
  const at = JSON.stringify(receivedAt);
  return `${head.slice(0, -1)},"payload":${oneLine(payload)},"receivedAt":${at}}`;
}

function oneLine(payload: string): string {
  try {
    JSON.parse(payload);
  } catch {
    return JSON.stringify(payload);
  }
  // JSON has bare line breaks only between its parts, where a space says the same.
  return payload.replace(/[\r\n]/g, ' ');
}
