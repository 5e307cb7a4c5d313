import { afterAll, beforeAll, expect, test } from '@jest/globals';
import { runCarillonHere, runCarillonJson } from '../support/carillon.ts';
import { send } from '../support/end-to-end/pushes.ts';
import { registerSimulatedBrowser } from '../support/providers/devices.ts';
import { openProviderFixture, type ProviderFixture } from '../support/providers/fixture.ts';
import { untilFinal } from '../support/providers/outcomes.ts';

const WEB_PUSH_CONTACT = 'mailto:ops@mail.net';

let fixture: ProviderFixture;
beforeAll(async () => {
  fixture = await openProviderFixture({ env: { WEB_PUSH_CONTACT } });
});
afterAll(() => fixture?.close());

test('a new app sends to Safari with the contact of the deployment, and nothing warns', async () => {
  const { sandbox, stack, store } = fixture;
  const { dev } = stack;
  await sandbox.setFaults('web-push', { checkContact: true });
  const browser = await registerSimulatedBrowser(dev, sandbox);
  const push = await send(stack, browser.token);
  expect(push.info).toEqual({ devices: 1, failed: [] });
  expect(await untilFinal(store, push, browser.token)).toEqual({ outcome: 'sent' });

  const listed = await runCarillonJson<{ id: string; contact?: string; warning?: string }[]>(
    ...[stack.home, 'credential', 'list', '--app', dev.app],
  );
  const [pair] = listed.filter(({ id }) => id === `${dev.app}:web-push`);
  expect([pair?.contact, pair?.warning]).toEqual([WEB_PUSH_CONTACT, undefined]);
  // Another check may fail, such as that of a busy machine.
  const { stdout } = await runCarillonHere(stack.home, ['--json', 'doctor']);
  const findings = JSON.parse(stdout) as { check: string; detail: string }[];
  expect(findings.find(({ check }) => check === 'web push contact')?.detail).toMatch(
    new RegExp(`^${WEB_PUSH_CONTACT} `),
  );
});
