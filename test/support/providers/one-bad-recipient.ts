import type { TestTenant } from '../api/tenants.ts';
import type { Sent } from '../end-to-end/pushes.ts';
import { expectWithin } from '../lag.ts';
import { until } from '../until.ts';
import type { DocumentedAnswer } from './answers-table.ts';
import type { ProviderFixture } from './fixture.ts';
import { type ProviderDevicePool, registerFor } from './provider-device-pool.ts';

/** An app of which one device gets the same answer of its provider each time. */
export interface AppWithOneBadDevice {
  documented: DocumentedAnswer;
  tenant: TestTenant;
  bad: { token: string; address: string };
  good: ProviderDevicePool;
}

/**
 * Creates an app with `devices` good devices and a bad one, whose provider's answer also has a Retry-After of ten
 * minutes: each minute that a good device waits would be for nothing.
 */
export async function createAppWithOneBadDevice(
  fixture: ProviderFixture,
  documented: DocumentedAnswer,
  devices: number,
): Promise<AppWithOneBadDevice> {
  const { channel, http } = documented;
  const tenant = await fixture.tenant({ fcm: 0 });
  const { tokens, addresses } = await registerFor(channel, tenant, fixture.sandbox, devices + 1);
  const [badToken = '', ...goodTokens] = tokens;
  const [badAddress = '', ...goodAddresses] = addresses;
  const headers = { 'retry-after': '600', ...http?.headers };
  await fixture.sandbox.scriptPermanently(channel, badAddress, { ...http, headers });
  return {
    documented,
    tenant,
    bad: { token: badToken, address: badAddress },
    good: { tokens: goodTokens, addresses: goodAddresses },
  };
}

/** Waits until the provider has accepted a push for all of these addresses, each once, which nothing may delay. */
export async function untilAccepted(
  { sandbox }: Pick<ProviderFixture, 'sandbox'>,
  { id }: Sent,
  addresses: readonly string[],
  withinMs = 10_000,
): Promise<void> {
  const isWanted = new Set(addresses);
  let accepted: string[] = [];
  const areAccepted = async () => {
    accepted = (await sandbox.received(id))
      .filter(({ to, status }) => isWanted.has(to) && String(status).startsWith('2'))
      .map(({ to }) => to);
    return new Set(accepted).size === isWanted.size;
  };
  const what = `${isWanted.size} good recipients of ${id}`;
  const timeoutMs = withinMs + 50_000;
  await expectWithin(withinMs, until(areAccepted, { timeoutMs, everyMs: 100, what }));
  if (accepted.length !== isWanted.size) throw new Error(`${id} was accepted more than once`);
}
