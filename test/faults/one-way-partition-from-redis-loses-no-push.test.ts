import { afterAll, beforeAll, test } from '@jest/globals';
import {
  DIRECTIONS,
  expectPartitionLosesNothing,
} from '../support/faults/expect-partition-loses-nothing.ts';
import { openProxiedServices, type ProxiedServices } from '../support/faults/proxied-services.ts';
import type { ServiceName } from '../support/operators/service-process.ts';

const DEVICES = 12;
const PARTITIONED: readonly ServiceName[] = ['delivery-worker', 'device-gateway', 'scheduler'];

let services: ProxiedServices;
beforeAll(async () => {
  services = await openProxiedServices(DEVICES);
}, 120_000);
afterAll(() => services?.close());

test.each(
  PARTITIONED.flatMap((service) => DIRECTIONS.map((direction) => ({ service, direction }))),
)(
  '$service and Redis, between which the $direction are lost',
  async ({ service, direction }) => {
    await expectPartitionLosesNothing(services, { service, server: 'redis', direction });
  },
  180_000,
);
