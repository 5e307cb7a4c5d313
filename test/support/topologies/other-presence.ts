import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from '@jest/globals';
import type { Fixture } from '../faults/fixture.ts';
import { expectWholeOrAbsent, type Observers, sendDuring } from '../faults/steady-pushes.ts';
import { createMqttDevice } from '../mqtt-device.ts';
import { type ServiceProcess, startService } from '../operators/service-process.ts';
import { registerDevice } from '../register-device.ts';
import type { Stack } from '../stack.ts';

const LOAD = { perSecond: 20, perPush: 3 };
const PUSHES = 160;

/**
 * Runs a gateway and a worker with another PRESENCE_REDIS_URL beside those of a stack, connects devices to that gateway, and
 * expects that no push to any device is lost.
 *
 * @param label the change, for the output
 * @param devices how many are connected to the other gateway
 */
export async function expectBothPresencesLoseNothing(
  fixture: Fixture,
  { label, url, devices }: { label: string; url: string; devices: number },
): Promise<void> {
  const { stack } = fixture;
  const env = { ...readSettings(stack), PRESENCE_REDIS_URL: url };
  const started: ServiceProcess[] = [];
  try {
    for (const service of ['device-gateway', 'delivery-worker'] as const)
      started.push(await startService(service, env));
    await Promise.all(started.map((process) => process.untilReady()));
    const gateway = `mqtt://127.0.0.1:${started[0]?.port}`;
    const moved = await Promise.all(
      Array.from({ length: devices }, async () =>
        createMqttDevice({ url: gateway, ...(await registerDevice(stack.dev)) }),
      ),
    );
    await Promise.all(moved.map((device) => device.connect()));
    const all = [...fixture.pool.devices, ...moved];
    const observers: Observers = { ...fixture, pool: { devices: all } };
    const sent = await sendDuring(stack, all, LOAD, (load) => load.untilAccepted(PUSHES));
    await expectWholeOrAbsent(label, observers, sent);
    await Promise.all(moved.map((device) => device.disconnect()));
  } finally {
    const codes = await Promise.all(started.map((process) => process.stop()));
    expect(codes).toEqual(started.map(() => 0));
  }
}

/** Reads the data servers and the keys of a stack. */
function readSettings({ dev, home }: Stack): Record<string, string> {
  const secrets = JSON.parse(readFileSync(join(home, 'secrets.json'), 'utf8')) as Record<
    'deviceAuthKeys' | 'credentialKeys',
    string
  >;
  return {
    MONGODB_URI: dev.mongodb,
    REDIS_URL: dev.redis,
    DEVICE_AUTH_KEYS: secrets.deviceAuthKeys,
    CREDENTIAL_KEYS: secrets.credentialKeys,
    GATEWAY_DRAIN_SECONDS: '1',
  };
}
