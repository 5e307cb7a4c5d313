import { randomUUID } from 'node:crypto';
import { runCarillonJson } from '../carillon.ts';
import type { Stack } from '../stack.ts';
import { until } from '../until.ts';

/** No busier than the limit of requests per minute lets anybody be. */
const POLL_OPTIONS = { everyMs: 100 };

/** A push that was accepted. */
export interface Sent {
  id: string;
  /** The payload's text. */
  payload: string;
  info: { devices: number; failed?: string[]; warnings?: string[] };
}

/** The status of a push (specification 4.2). */
export interface PushStatus {
  date: number;
  payload: unknown;
  expiration: number;
  pending_devices: string[];
}

/** The device info (specification 4.4). */
export interface DeviceInfo {
  device: { date: number; platform: string; way: string; push_kind?: string; expires?: number };
  presence: { online: boolean; last_active: { date: number; seconds_ago: number } };
  pending_notifications: { id: string; date: number; payload: unknown; expiration: number }[];
  subscriptions: string[];
}

/**
 * Sends a push with a payload that no other push has.
 *
 * @param fields more fields of the request
 * @throws when it is not accepted
 */
export async function send(
  stack: Pick<Stack, 'api'>,
  to: string | readonly string[],
  fields: Record<string, unknown> = {},
): Promise<Sent> {
  const data = { mark: randomUUID() };
  const response = await stack.api<Sent>('POST', '/push', { to, data, ...fields });
  if (response.status !== 200) throw new Error(`push: ${response.status} ${response.text}`);
  return { id: response.json.id, info: response.json.info, payload: JSON.stringify(data) };
}

/** @throws when the push is not known (any more) */
export async function getPushStatus(stack: Pick<Stack, 'api'>, id: string): Promise<PushStatus> {
  const { json, text } = await stack.api<{ push?: PushStatus }>('GET', `/pushes/${id}`);
  if (json.push === undefined) throw new Error(`status of ${id}: ${text}`);
  return json.push;
}

/** @throws when the device is not known */
export async function getDeviceInfo(stack: Pick<Stack, 'api'>, token: string): Promise<DeviceInfo> {
  const { status, json, text } = await stack.api<DeviceInfo>('GET', `/devices/${token}`);
  if (status !== 200) throw new Error(`device ${token}: ${text}`);
  return json;
}

/** Waits until exactly these devices are named as pending in the push's status. */
export async function untilPending(
  stack: Pick<Stack, 'api'>,
  id: string,
  tokens: readonly string[],
): Promise<void> {
  const expected = [...tokens].sort().join();
  let seen: string[] = [];
  const isSo = async () => {
    seen = (await getPushStatus(stack, id)).pending_devices;
    return [...seen].sort().join() === expected;
  };
  await until(isSo, { ...POLL_OPTIONS, what: `${tokens.length} pending` }).catch((cause) => {
    throw new Error(`push ${id}: pending at ${seen.length}, not ${tokens.length}`, { cause });
  });
}

/** Waits until the device's info lists exactly these pushes as pending, in that order. */
export async function untilInbox(
  stack: Pick<Stack, 'api'>,
  token: string,
  ids: readonly string[],
): Promise<void> {
  const isSo = async () => {
    const { pending_notifications: pending } = await getDeviceInfo(stack, token);
    return pending.map(({ id }) => id).join() === ids.join();
  };
  await until(isSo, { ...POLL_OPTIONS, what: `${ids.length} in the inbox of ${token}` });
}

/** Waits until `carillon push outcomes` shows this outcome for every one of the devices. */
export async function untilOutcome(
  stack: Pick<Stack, 'home'>,
  id: string,
  tokens: readonly string[],
  outcome: string,
): Promise<void> {
  for (const token of tokens) {
    const isSo = async () => {
      const args = ['push', 'outcomes', id, '--token', token];
      return (await runCarillonJson(stack.home, ...args)).outcome === outcome;
    };
    await until(isSo, { ...POLL_OPTIONS, what: `${outcome} at ${token}` });
  }
}

/** Counts per outcome, as `carillon push outcomes` shows them. */
export async function getOutcomes(
  stack: Pick<Stack, 'home'>,
  id: string,
): Promise<Record<string, number>> {
  const args = ['push', 'outcomes', id];
  return (await runCarillonJson<{ outcomes: Record<string, number> }>(stack.home, ...args))
    .outcomes;
}
