import { EventEmitter } from 'node:events';
import { setImmediate as turn } from 'node:timers/promises';
import { NO_ADDRESS_LIMITS } from '../../src/address-limits.ts';
import { admit } from '../../src/admit.ts';
import type { Connections } from '../../src/connections.ts';
import { serveLink } from '../../src/serve-link.ts';
import type { Wire } from '../../src/wire.ts';
import { AUTH, TOKEN } from './streams.ts';

/** What became of a stream. */
export interface Story {
  /** Packets understood and answers written, in order. */
  said: string[];
  /** `open`: more is waited for; `left`: DISCONNECT; `answered`: refused with a CONNACK; `refused`: closed without a word. */
  end: 'open' | 'left' | 'answered' | 'refused';
}

class FakeWire extends EventEmitter implements Wire {
  destroyed = false;
  writableLength = 0;
  readonly #said: string[];
  constructor(said: string[]) {
    super();
    this.#said = said;
  }
  write(bytes: Buffer): void {
    this.#said.push(`answer ${bytes.toString('hex')}`);
  }
  end(bytes: Buffer = Buffer.alloc(0)): void {
    this.write(bytes);
  }
  destroy(): void {
    this.destroyed = true;
  }
  resume(): void {}
}

/** Plays a stream to the gateway's own reader, over a wire of the test's. */
export async function playToUs(pieces: readonly Buffer[]): Promise<Story> {
  const story: Story = { said: [], end: 'open' };
  const wire = new FakeWire(story.said);
  const connections = {
    find: () => undefined,
    open: async () => undefined,
    acknowledge(connection, packetId) {
      story.said.push(`puback ${packetId}`);
      connection.idlePackets = 0;
      return true;
    },
    close(_connection, reason) {
      story.end = reason === 'disconnected' ? 'left' : 'refused';
      wire.destroy();
    },
  } satisfies Partial<Connections> as unknown as Connections;
  serveLink(
    {
      connections,
      strangers: { forget: () => undefined },
      limits: NO_ADDRESS_LIMITS,
      admit: (frame) =>
        admit(frame, {
          isDeviceAuth: (token, auth) => token === TOKEN && auth === AUTH,
          findDevice: async () => ({}),
        }),
      look: async () => undefined,
      connected(result) {
        if (result.startsWith('refused-')) story.end = 'answered';
        else if (result !== 'accepted') story.end = 'refused';
      },
    },
    { address: '', openedAt: 0, isHeard: false, wire },
  );
  for (const piece of pieces) {
    if (piece.length === 0 || wire.destroyed) continue;
    wire.emit('data', piece);
    // A CONNECT is looked at behind a promise; half of the cuts fall before its answer.
    if (piece.length % 2 === 0) await turn();
  }
  await turn();
  return story;
}
