import { until } from '../../../test/support/until.ts';
import type { DispatchPlan } from '../src/dispatch-to-many.ts';
import { createGatewayChannel, type GatewayChannel } from '../src/gateway-channel.ts';
import type { DispatchedDelivery } from '../src/gateway-messages.ts';
import type { ConnectedDevice } from '../src/presence-registry.ts';
import type { DeliveryResult } from '../src/replies.ts';

/** A gateway without sockets that replies with a configured result and records its events. */
export type TestGateway = Awaited<ReturnType<typeof openTestGateway>>;

/** Returns the plan of a dispatch that may be written until `ms` after it is sent. */
export function leaveWithin(ms: number): DispatchPlan {
  return {
    app: 'a1',
    mayWait: true,
    beforeSend: async () => ({ deadline: performance.now() + ms, includes: () => true }),
  };
}

/** Starts a test gateway. */
export async function openTestGateway(url: string, ca?: string) {
  const devices = new Map<string, ConnectedDevice>();
  const recorded = {
    deliveries: [] as DispatchedDelivery[],
    kicked: [] as Pick<ConnectedDevice, 'token' | 'connection'>[],
    /** Tokens of devices that were registered late or again. */
    reregistered: [] as string[],
    /** Tokens of devices whose inbox must be checked for missed rows. */
    rechecked: [] as string[],
    result: 'acknowledged' as DeliveryResult | undefined,
  };
  const channel: GatewayChannel = await createGatewayChannel(
    { url, ca },
    {
      async deliver(delivery) {
        recorded.deliveries.push(delivery);
        for (const position of delivery.positions) {
          if (recorded.result) channel.reply(delivery, position, recorded.result);
        }
      },
      inboxChanged: () => undefined,
      kick: (kicked) => recorded.kicked.push(kicked),
      reregistered: ({ token }) => recorded.reregistered.push(token),
      recheckInbox: ({ token }) => recorded.rechecked.push(token),
      devices: () => devices.values(),
      isOpen: ({ token, connection }) => devices.get(token)?.connection === connection,
      credit: () => 1_000,
    },
  );
  await until(() => channel.hasLease());
  return Object.assign(recorded, {
    channel,
    /** Registers a device. It stays connected until `disconnect`, even if it is kicked. */
    async connect(token: string, connection: string, { ageMs } = { ageMs: 0 }) {
      const device = { token, connection, connectedAt: performance.now() - ageMs };
      devices.set(token, device);
      await channel.register(device);
    },
    async disconnect(token: string) {
      const device = devices.get(token);
      devices.delete(token);
      if (device !== undefined) await channel.unregister(device);
    },
  });
}
