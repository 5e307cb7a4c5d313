import { removeRateLimit } from '../carillon.ts';
import { type Fixture, openFixture } from '../faults/fixture.ts';
import type { MongodProcess } from '../faults/mongod-process.ts';
import { type ReplicaSet, runOn, startReplicaSet } from '../faults/replica-set.ts';
import { until } from '../until.ts';
import { type Network, type Node, startNetwork } from './network.ts';

export const SERVICES = ['api', 'delivery-worker', 'scheduler', 'device-gateway'] as const;
export type Service = (typeof SERVICES)[number];
const ELECTED = { timeoutMs: 90_000, everyMs: 100, what: 'a primary of the majority' };

/** A stack whose MongoDB is a replica set of three, on a network that can be divided. Redis is reached from both sides. */
export interface DividedStack extends Fixture {
  replicaSet: ReplicaSet;
  /**
   * Separates the primary and some services from the other members and services.
   *
   * @returns the primary that was separated
   */
  separatePrimary(services: readonly Service[]): Promise<MongodProcess>;
  /** Waits until the majority has another primary. */
  untilReplaced(primary: MongodProcess): Promise<void>;
  /** Waits until a separated primary has stepped down. */
  untilSteppedDown(primary: MongodProcess): Promise<void>;
  heal(): void;
}

/** Starts the replica set, its network and a stack with connected devices and no limit of requests. */
export async function startDividedStack(devices: number): Promise<DividedStack> {
  let network: Network | undefined;
  const replicaSet = await startReplicaSet({
    async advertise(members) {
      network = await startNetwork(members);
      return network.ports;
    },
  });
  const stopServers = async () => {
    await replicaSet.remove();
    await network?.stop();
  };
  try {
    const env = { MONGODB_URI: replicaSet.uri };
    const fixture = await openFixture({ registered: devices, real: devices }, { env });
    await removeRateLimit(fixture.stack);
    const nodes = new Map(
      SERVICES.map((name): [Service, Node] => [name, { pid: () => fixture.stack.pidOf(name) }]),
    );
    const isPrimary = async (member: MongodProcess) =>
      (await runOn(member, { hello: 1 })).isWritablePrimary === true;
    return {
      ...fixture,
      replicaSet,
      async separatePrimary(services) {
        const primary = await replicaSet.findPrimary();
        const inside = services.flatMap((name) => nodes.get(name) ?? []);
        network?.separate([primary, ...inside], [...nodes.values()]);
        return primary;
      },
      async untilReplaced(primary) {
        const others = replicaSet.members.filter((member) => member !== primary);
        await until(async () => {
          for (const member of others) if (await isPrimary(member)) return true;
          return false;
        }, ELECTED);
      },
      async untilSteppedDown(primary) {
        await until(async () => !(await isPrimary(primary)), ELECTED);
      },
      heal: () => network?.heal(),
      async close() {
        network?.heal();
        await fixture.close();
        await stopServers();
      },
    };
  } catch (error) {
    await stopServers();
    throw error;
  }
}
