import { randomBytes } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { createTestHome, readHomeFile, type TestHome } from '../support/first-run/test-home.ts';
import { createMqttDevice, type MqttDevice, newMqttDevice } from '../support/mqtt-device.ts';

let testHome: TestHome;
beforeAll(async () => {
  testHome = await createTestHome();
});
afterAll(() => testHome?.remove());

test('with a new device key before the old one, devices of both are connected', async () => {
  const start = testHome.start();
  const { token, auth } = await newMqttDevice(await start.ready());
  start.signal('SIGINT');
  await start.exit();
  const secrets = JSON.parse(readHomeFile(testHome, 'secrets.json'));
  const deviceAuthKeys = `2:${randomBytes(32).toString('hex')},${secrets.deviceAuthKeys}`;
  const text = JSON.stringify({ ...secrets, deviceAuthKeys });
  writeFileSync(join(testHome.home, 'secrets.json'), text);

  const dev = await testHome.start().ready();
  const devices: MqttDevice[] = [
    createMqttDevice({ url: dev.mqtt, token, auth }),
    await newMqttDevice(dev),
  ];
  await Promise.all(devices.map((device) => device.connect()));
  // A credential begins with the id of its key.
  expect([auth.slice(0, 2), devices[1]?.auth.slice(0, 2)]).toEqual(['01', '02']);
  await Promise.all(devices.map((device) => device.disconnect()));
}, 120_000);
