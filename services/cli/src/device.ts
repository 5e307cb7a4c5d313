import type { DeviceView } from '@carillon/admin/devices';
import { CHANNELS, type Channel } from '@carillon/core/channels';
import type { Command } from 'commander';
import { z } from 'zod';
import type { DevicePush } from './admin/admin.ts';
import { withAdmin } from './admin/with-admin.ts';
import { type ApiRequest, requestApi } from './api-client.ts';
import { addEraseCommand } from './erase-device.ts';
import { formatCount, formatTimestamp } from './output.ts';
import { addPaging, formatPage, type PagingOptions, toPageQuery } from './paging.ts';
import { addPruneCommand, type PruneContext } from './prune-devices.ts';
import { describeRecipientStatus } from './push.ts';
import { type CommandContext, requireSetting, type Stack } from './stack.ts';

/** Fields of the API's device response (specification 4.4) that are shown to people. */
const deviceResponse = z.object({
  device: z.object({
    date: z.number(),
    platform: z.string(),
    way: z.enum(CHANNELS).optional(),
    push_kind: z.string().optional(),
    expires: z.number().optional(),
    replaced_by: z.string().optional(),
    replaces: z.string().optional(),
  }),
  presence: z.object({
    online: z.boolean(),
    last_active: z.object({ date: z.number(), seconds_ago: z.number() }),
    uninstalled: z.boolean().optional(),
    unsubscribed: z.boolean().optional(),
  }),
  subscriptions: z.array(z.string()),
  pending_notifications: z.array(z.unknown()),
});

const WAYS: Record<Channel, string> = {
  mqtt: 'MQTT',
  apns: 'APNs',
  fcm: 'FCM',
  'web-push': 'Web Push',
};
const WAY_WIDTH = Math.max(...Object.values(WAYS).map(({ length }) => length));

/** Adds `carillon device …`: registered installations. */
export function addDeviceCommands(
  program: Command,
  context: PruneContext & { err(text: string): void },
): void {
  const { stack, output } = context;
  const device = program.command('device').description('manage registered devices');
  addPaging(
    device
      .command('list')
      .description("list an app's devices in order of token")
      .requiredOption('--app <id>', 'the app'),
    'after',
    'token',
  ).action(async (options: PagingOptions & { app: string }) => {
    const page = await withAdmin(stack(), (admin) =>
      admin.listDevices(options.app, toPageQuery(options)),
    );
    output.show(page.items, formatPage(page, formatDevice, 'after'));
  });
  addPushesCommand(device, context);
  device
    .command('show')
    .description('show a device from the API')
    .argument('<token>')
    .action(async (token: string) => {
      const text = await requestDevice(stack(), 'GET', token);
      output.showText(text, describeDevice(token, text));
    });
  device
    .command('delete')
    .description('delete a device: it is disconnected and can no longer connect')
    .argument('<token>')
    .action(async (token: string) => {
      const text = await requestDevice(stack(), 'DELETE', token);
      output.showText(text, [`Device ${token} deleted.`]);
    });
  addEraseCommand(device, context);
  addPruneCommand(device, context);
}

function addPushesCommand(device: Command, { stack, output }: CommandContext): void {
  addPaging(
    device
      .command('pushes')
      .description('list the pushes to a device and their outcomes there, the newest first')
      .argument('<token>'),
    'before',
    'id',
  ).action(async (token: string, options: PagingOptions) => {
    const { items, ...paging } = await withAdmin(stack(), (admin) =>
      admin.listDevicePushes(token, toPageQuery(options)),
    );
    const page = { items: items.map(toDevicePushView), ...paging };
    const lines = formatPage(
      page,
      (view) =>
        `${view.id}  ${formatTimestamp(view.date)}  ${view.state}: ${describeRecipientStatus(view)}`,
      'before',
    );
    output.show(page.items, lines);
  });
}

/** Converts times to unix seconds, as the HTTP API gives them. */
function toDevicePushView({ acceptedAt, expiresAt, ...item }: DevicePush) {
  const toSeconds = (ms: number): number => Math.floor(ms / 1_000);
  return { ...item, date: toSeconds(acceptedAt), expiration: toSeconds(expiresAt) };
}

function requestDevice(
  target: Stack,
  method: ApiRequest['method'],
  token: string,
): Promise<string> {
  const path = `/devices/${encodeURIComponent(token)}`;
  const key = requireSetting(target, 'apiKey');
  return requestApi(requireSetting(target, 'api'), { method, path, key });
}

function formatDevice(device: DeviceView): string {
  const { token, platform, way, last_active } = device;
  const flags = listFlags(device).map((flag) => `, ${flag}`);
  return `${token}  ${platform.padEnd(8)}  ${describeWay(way).padEnd(WAY_WIDTH)}  last active ${formatTimestamp(last_active)}${flags.join('')}`;
}

function describeWay(way: Channel | undefined): string {
  return way === undefined ? 'unknown' : WAYS[way];
}

/** Lists the flags that a failed delivery has set. */
function listFlags(flags: {
  uninstalled?: boolean | undefined;
  unsubscribed?: boolean | undefined;
}): string[] {
  return [
    ...(flags.uninstalled ? ['uninstalled'] : []),
    ...(flags.unsubscribed ? ['unsubscribed'] : []),
  ];
}

function describeDevice(token: string, text: string): string[] {
  const { device, presence, ...lists } = deviceResponse.parse(JSON.parse(text));
  const { date, seconds_ago } = presence.last_active;
  return [
    `Device ${token}: ${device.platform}, registered ${formatTimestamp(device.date)}.`,
    `Way of its pushes: ${describeWay(device.way)}.`,
    ...(device.push_kind === undefined ? [] : [`Kind of its token: ${device.push_kind}.`]),
    ...(device.expires === undefined ? [] : [`Ends ${formatTimestamp(device.expires)}.`]),
    ...(device.replaced_by === undefined ? [] : [`Replaced by ${device.replaced_by}.`]),
    ...(device.replaces === undefined ? [] : [`Replaces ${device.replaces}.`]),
    ...listFlags(presence).map((flag) => `A delivery failed because the device is ${flag}.`),
    `${presence.online ? 'Online' : 'Offline'}, last active ${formatTimestamp(date)} (${seconds_ago} s ago).`,
    `Topics: ${lists.subscriptions.join(', ') || 'none'}.`,
    `Pending: ${formatCount(lists.pending_notifications.length, 'push', 'pushes')}.`,
  ];
}
