import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import type { StackFixture } from '../support/fixture.ts';
import { pidOf, readCpuNanoseconds } from '../support/resource-usage.ts';
import { createPushFloor } from './push-floor.ts';

/** The floor of a single push: only its round trips. */
export interface OneDeviceFloor {
  /**
   * Does a journaled insert, XADD, XREAD, a socket write and the read of the PUBACK, in sequence.
   *
   * @returns the time (`performance.now()`) at which the insert had ended
   */
  deliver(): Promise<number>;
  /** Returns the CPU milliseconds of this process, MongoDB and Redis so far. */
  cpuMs(): number;
  stop(): Promise<void>;
}

const STREAM = 'bench:floor';
const PUBLISH = Buffer.from(`2\x2a\x00\x18${'0'.repeat(24)}\x00\x01{"message":"x"}`, 'latin1');
const PUBACK = Buffer.from([0x40, 2, 0, 1]);

export async function startOneDeviceFloor({
  mongo,
  redis,
  stack,
}: StackFixture): Promise<OneDeviceFloor> {
  const insert = createPushFloor(mongo, stack.dev.app);
  const reader = redis.duplicate();
  const server = createServer({ noDelay: true });
  await once(server.listen({ host: '127.0.0.1', port: 0 }), 'listening');
  const accepted = once(server, 'connection') as Promise<[Socket]>;
  const { port } = server.address() as AddressInfo;
  const device = connect({ host: '127.0.0.1', port, noDelay: true });
  device.on('data', () => device.write(PUBACK));
  const [socket] = await accepted;
  const servers = ['mongodb', 'redis'].map((service) => pidOf(stack, service));
  let last = '0';
  return {
    async deliver() {
      await insert();
      const insertedAt = performance.now();
      const id = await redis.xadd(STREAM, '*', 'push', PUBLISH);
      await reader.xread('COUNT', 1, 'STREAMS', STREAM, last);
      last = id ?? last;
      socket.write(PUBLISH);
      await once(socket, 'data');
      return insertedAt;
    },
    cpuMs() {
      const { user, system } = process.cpuUsage();
      const nanoseconds = servers.reduce((sum, pid) => sum + readCpuNanoseconds(pid), 0);
      return (user + system) / 1_000 + nanoseconds / 1e6;
    },
    async stop() {
      reader.disconnect();
      device.destroy();
      socket.destroy();
      server.close();
      await redis.del(STREAM);
    },
  };
}
