import type { ImportedSubscription, ImportResult, ImportTarget } from '@carillon/store/imports';
import type { Store } from '@carillon/store/store';
import { type AppleSettings, RefusedLine } from './field-parsers.ts';
import type { ImportState, Refusal } from './import-state.ts';
import type { FileLine } from './read-lines.ts';
import { type ImportLine, SOURCES, type Source } from './sources.ts';

/** Import of a file for an app. */
export interface ImportRequest {
  app: string;
  source: Source;
  apple: AppleSettings;
  /** Webhooks to which each imported device is reported. */
  webhooks: readonly string[];
}

/** Stored devices, and where a file is imported, or checked. */
export interface ImportStore extends Pick<Store, 'devices'> {
  imports: ImportTarget;
}

type DeviceLine = { line: number; content: Extract<ImportLine, { kind: 'device' }> };
type SubscriptionLine = { line: number; content: Extract<ImportLine, { kind: 'subscription' }> };

const REASONS: Record<Exclude<ImportResult['kind'], 'imported' | 'existing'>, string> = {
  'other-app': 'the token belongs to a device of another app',
  deleted: 'the device with this token was deleted here; it must register anew',
  'address-taken': 'another device of the app has this provider address',
};

/** Maximum subscriptions that are written together. */
const SUBSCRIPTIONS_PER_WRITE = 5_000;

/**
 * Imports some lines with a few statements, and adds up the counts. May be repeated.
 *
 * @returns the lines that were refused
 */
export async function importLines(
  store: ImportStore,
  request: ImportRequest,
  lines: readonly FileLine[],
  counts: ImportState['counts'],
): Promise<Refusal[]> {
  const refusals: Refusal[] = [];
  const devices: DeviceLine[] = [];
  const subscriptions: SubscriptionLine[] = [];
  for (const { fields, line } of lines) {
    try {
      if (fields instanceof RefusedLine) throw fields;
      const content = SOURCES[request.source](fields, request.apple);
      if (content.kind === 'device') devices.push({ line, content });
      else subscriptions.push({ line, content });
    } catch (error) {
      if (!(error instanceof RefusedLine)) throw error;
      refusals.push({ line, reason: error.message });
    }
  }
  if (devices.length > 0) refusals.push(...(await importDevices(store, request, devices, counts)));
  if (subscriptions.length > 0)
    refusals.push(...(await importSubscriptions(store, request, subscriptions, counts)));
  counts.refused += refusals.length;
  return refusals.sort((a, b) => a.line - b.line);
}

async function importDevices(
  { imports }: Pick<ImportStore, 'imports'>,
  { app, webhooks }: ImportRequest,
  lines: readonly DeviceLine[],
  counts: ImportState['counts'],
): Promise<Refusal[]> {
  const results = await imports.importDevices(
    app,
    lines.map(({ content }) => content.device),
    webhooks,
  );
  const refusals: Refusal[] = [];
  const subscriptions: ImportedSubscription[] = [];
  for (const [index, { line, content }] of lines.entries()) {
    const result = results[index];
    if (result === undefined) continue;
    if (result.kind !== 'imported' && result.kind !== 'existing') {
      refusals.push({ line, reason: REASONS[result.kind] });
      continue;
    }
    counts[result.kind] += 1;
    const { platform } = content.device;
    if (platform === 'android') counts.android += 1;
    for (const topic of content.topics)
      subscriptions.push({ topic, token: result.token, platform });
  }
  for (let from = 0; from < subscriptions.length; from += SUBSCRIPTIONS_PER_WRITE)
    await imports.importSubscriptions(
      app,
      subscriptions.slice(from, from + SUBSCRIPTIONS_PER_WRITE),
    );
  return refusals;
}

async function importSubscriptions(
  { imports, devices }: ImportStore,
  { app }: ImportRequest,
  lines: readonly SubscriptionLine[],
  counts: ImportState['counts'],
): Promise<Refusal[]> {
  const tokens = [...new Set(lines.map(({ content }) => content.token))];
  const found = await devices.findRecipients(app, tokens);
  const platforms = new Map(found.map(({ token, platform }) => [token, platform]));
  const refusals: Refusal[] = [];
  const subscriptions = lines.flatMap(({ line, content }): ImportedSubscription[] => {
    const { token, topic, since } = content;
    const platform = platforms.get(token);
    if (platform !== undefined) return [{ token, topic, platform, ...(since && { since }) }];
    refusals.push({
      line,
      reason: 'the app has no device with this token; import the devices first',
    });
    return [];
  });
  await imports.importSubscriptions(app, subscriptions);
  counts.imported += subscriptions.length;
  return refusals;
}
