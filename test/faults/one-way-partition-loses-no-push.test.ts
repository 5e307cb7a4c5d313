import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { listUnreadyDuring } from '../support/faults/list-unready.ts';
import { openProxiedServices, type ProxiedServices } from '../support/faults/proxied-services.ts';
import { expectWholeOrAbsent, sendDuring } from '../support/faults/steady-pushes.ts';

const LOAD = { perSecond: 5, perPush: 4 };
const DEVICES = 12;
const PUSHES = 10;
/** Takes longer than the lease of a batch. */
const PUSHES_DURING_PARTITION = 40;
const PARTITIONED = ['delivery-worker', 'device-gateway', 'scheduler'] as const;
const SERVERS = ['mongodb', 'redis'] as const;
const DIRECTIONS = ['requests', 'responses'] as const;

let services: ProxiedServices;
beforeAll(async () => {
  services = await openProxiedServices(DEVICES);
}, 120_000);
afterAll(() => services?.close());

test.each(
  SERVERS.flatMap((server) =>
    PARTITIONED.flatMap((service) =>
      DIRECTIONS.map((direction) => ({ server, service, direction })),
    ),
  ),
)(
  '$service and $server, between which the $direction are lost: all pushes are accepted and delivered, and no process ends or turns unready',
  async ({ server, service, direction }) => {
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
    expect(ended.map((one) => one.service)).toEqual([]);
  },
  180_000,
);
