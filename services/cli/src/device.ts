import type { DeviceDocument } from '@carillon/store/documents';
import type { Store } from '@carillon/store/store';
import type { Command } from 'commander';
import { z } from 'zod';
import { askApi } from './api.ts';
import { needApp, withStore } from './database.ts';
import { count, momentOf, type Output } from './output.ts';
import { need, type Stack } from './stack.ts';

const PAGE = 1_000;

/** The parts of the API's device answer (specification 4.4) that people are shown. */
const deviceAnswer = z.object({
  device: z.object({ date: z.number(), platform: z.string() }),
  presence: z.object({
    online: z.boolean(),
    last_active: z.object({ date: z.number(), seconds_ago: z.number() }),
  }),
  subscriptions: z.array(z.string()),
  pending_notifications: z.array(z.unknown()),
});

/** `carillon device …`: registered installations. */
export function addDeviceCommands(
  program: Command,
  { stack, output }: { stack: () => Stack; output: Output },
): void {
  const device = program.command('device').description('registered devices');
  device
    .command('list')
    .description("list an app's devices in order of token")
    .requiredOption('--app <id>', 'the app')
    .action(async ({ app }: { app: string }) => {
      const views = await withStore(stack(), async (store) => {
        await needApp(store, app);
        return listDevices(store, app);
      });
      output.show(
        views,
        views.map(
          ({ token, platform, last_active }) =>
            `${token}  ${platform.padEnd(8)}  last active ${momentOf(last_active)}`,
        ),
      );
    });
  device
    .command('show')
    .description('show a device as the API does')
    .argument('<token>')
    .action(async (token: string) => {
      const where = stack();
      const path = `/devices/${encodeURIComponent(token)}`;
      const request = { method: 'GET', path, key: need(where, 'apiKey') } as const;
      const text = await askApi(need(where, 'api'), request);
      output.showText(text, inWords(token, text));
    });
}

async function listDevices(store: Pick<Store, 'devices'>, app: string) {
  const views: ReturnType<typeof deviceView>[] = [];
  for (let after = ''; ; ) {
    const page = await store.devices.list(app, after, PAGE);
    views.push(...page.map(deviceView));
    const last = page.at(-1);
    if (last === undefined || page.length < PAGE) return views;
    after = last._id;
  }
}

/** A device with the names and times (unix seconds) of the HTTP API. */
function deviceView(device: DeviceDocument) {
  return {
    token: device._id,
    date: unixSeconds(device.registeredAt),
    platform: device.platform,
    last_active: unixSeconds(device.lastActiveAt),
    ...(device.uninstalled && { uninstalled: true }),
    ...(device.unsubscribed && { unsubscribed: true }),
  };
}

function unixSeconds(date: Date): number {
  return Math.floor(date.getTime() / 1_000);
}

function inWords(token: string, text: string): string[] {
  const { device, presence, ...has } = deviceAnswer.parse(JSON.parse(text));
  const { date, seconds_ago } = presence.last_active;
  return [
    `Device ${token}: ${device.platform}, registered ${momentOf(device.date)}.`,
    `${presence.online ? 'Online' : 'Offline'}, last active ${momentOf(date)} (${seconds_ago} s ago).`,
    `Topics: ${has.subscriptions.join(', ') || 'none'}.`,
    `Waiting for it: ${count(has.pending_notifications.length, 'push', 'pushes')}.`,
  ];
}
