import { expect } from '@jest/globals';
import type { ServiceName } from '../operators/service-process.ts';
import type { Direction } from '../tcp-proxy.ts';
import { listUnreadyDuring } from './list-unready.ts';
import type { DataServer, ProxiedServices } from './proxied-services.ts';
import { expectWholeOrAbsent, sendDuring } from './steady-pushes.ts';

const LOAD = { perSecond: 5, perPush: 4 };
const PUSHES = 10;
/** Takes longer than the lease of a batch. */
const PUSHES_DURING_PARTITION = 40;

/** Both directions of a connection. */
export const DIRECTIONS: readonly Direction[] = ['requests', 'responses'];

/**
 * Sends pushes while the bytes of one direction between a service and a server go nowhere, and after. Expects that all are
 * accepted and delivered, and that no process ends or turns unready.
 */
export async function expectPartitionLosesNothing(
  services: ProxiedServices,
  {
    service,
    server,
    direction,
  }: { service: ServiceName; server: DataServer; direction: Direction },
): Promise<void> {
  const { stack, pool, processes } = services;
  const proxy = services.proxyOf(service, server);
  const unready = await listUnreadyDuring(processes, async () => {
    const sent = await sendDuring(stack, pool.devices, LOAD, async (load) => {
      await load.untilAccepted(PUSHES);
      proxy.block(direction);
      await load.untilAccepted(PUSHES_DURING_PARTITION).finally(proxy.restore);
      expect(proxy.heldBytes()).toBeGreaterThan(0);
      await load.untilAccepted(PUSHES);
    });
    expect(sent.filter(({ isAccepted }) => !isAccepted)).toEqual([]);
    await expectWholeOrAbsent(`no ${direction} between ${service} and ${server}`, services, sent);
  });
  expect(unready).toEqual([]);
  const ended = processes.filter((process) => !process.isRunning());
  expect(ended.map(({ service }) => service)).toEqual([]);
}
