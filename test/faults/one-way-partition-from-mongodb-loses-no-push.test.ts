import { afterAll, beforeAll, test } from '@jest/globals';
import {
  DIRECTIONS,
  expectPartitionLosesNothing,
} from '../support/faults/expect-partition-loses-nothing.ts';
import { type LinkedServices, openLinkedServices } from '../support/faults/linked-services.ts';
import type { ServiceName } from '../support/operators/service-process.ts';

const DEVICES = 12;
const PARTITIONED: readonly ServiceName[] = ['delivery-worker', 'device-gateway', 'scheduler'];

let services: LinkedServices;
beforeAll(async () => {
  services = await openLinkedServices(DEVICES);
}, 120_000);
afterAll(() => services?.close());

test.each(
  PARTITIONED.flatMap((service) => DIRECTIONS.map((direction) => ({ service, direction }))),
)(
  '$service and MongoDB, of whose link the $direction are lost',
  async ({ service, direction }) => {
    await expectPartitionLosesNothing(services, { service, server: 'mongodb', direction });
  },
  180_000,
);
