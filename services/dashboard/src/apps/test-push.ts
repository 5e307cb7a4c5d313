import type { Accept } from '@carillon/accept/admit-push';
import type { PushRequest } from '@carillon/accept/parse-push';
import type { ProviderChannelName } from '@carillon/core/channels';
import { DEVICE_TOKEN } from '@carillon/core/limits';
import type { DeviceDocument } from '@carillon/store/documents';
import type { Store } from '@carillon/store/store';
import { ConsoleError } from '../http/route.ts';

/** Time to live of a test push, which is of no use later. */
const TIME_TO_LIVE_SECONDS = 300;
const TEXT = 'Test push of the Carillon console';

/** The device and channel of a test push. */
export interface TestPushRequest {
  app: string;
  channel: ProviderChannelName;
  /** Its device token, or its token at the provider. */
  device: string;
  /** Name of the operator who sends it. */
  operator: string;
}

/**
 * Sends a push to one device of an app over a provider's channel, in the same way as all pushes.
 *
 * @returns the push and the device's token, by which its outcome can be read
 * @throws ConsoleError INVALID_PARAM if the app has no such device, or the channel does not reach it; ApiError when the
 *   push is not accepted
 */
export async function sendTestPush(
  store: Pick<Store, 'devices'>,
  accept: Accept,
  { app, channel, device: given, operator }: TestPushRequest,
): Promise<{ id: string; token: string }> {
  const device = await findDevice(store, app, given);
  if (device === undefined)
    throw new ConsoleError('INVALID_PARAM', 'The app has no device with this token.');
  if (device.provider?.channel !== channel)
    throw new ConsoleError('INVALID_PARAM', 'The device has no address on this channel.');
  const request: PushRequest = {
    tokens: [device._id],
    topics: [],
    data: JSON.stringify({ message: TEXT }),
    timeToLiveSeconds: TIME_TO_LIVE_SECONDS,
    options: { notification: { title: 'Test push', body: TEXT } },
    channel,
  };
  const { id } = await accept(app, request, { by: { operator } });
  return { id, token: device._id };
}

async function findDevice(
  { devices }: Pick<Store, 'devices'>,
  app: string,
  given: string,
): Promise<DeviceDocument | undefined> {
  const known = DEVICE_TOKEN.test(given) ? await devices.find(given) : undefined;
  if (known?.app === app && known.deletedAt === undefined) return known;
  const [registered] = await devices.findByAddress([app], given, 1);
  return registered;
}
