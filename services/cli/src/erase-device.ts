import { type ErasureResult, eraseDevice } from '@carillon/admin/erase-device';
import type { Command } from 'commander';
import { callApi, toApiFailure } from './api-client.ts';
import { withStore } from './database.ts';
import { formatCount } from './output.ts';
import { type CommandContext, requireSetting } from './stack.ts';

/** Adds `carillon device erase`. */
export function addEraseCommand(
  device: Command,
  { stack, output, err }: CommandContext & { err(text: string): void },
): void {
  device
    .command('erase')
    .description(
      'delete a device, and erase its token from all pushes at once instead of with their removal',
    )
    .argument('<token>')
    .requiredOption('--now', 'rewrite the pushes that name the device')
    .action(async (token: string) => {
      const target = stack();
      await deleteIfPresent(requireSetting(target, 'api'), requireSetting(target, 'apiKey'), token);
      const result = await withStore(target, (store) =>
        eraseDevice(store, token, (scanned) =>
          err(`${formatCount(scanned, 'push', 'pushes')} read\n`),
        ),
      );
      const { rewritten, recordUntil } = result;
      output.show({ ...result, ...(recordUntil && { recordUntil: recordUntil.toISOString() }) }, [
        `Device ${token} erased from ${formatCount(rewritten, 'document')} of pushes.`,
        describeRecord(result),
      ]);
    });
}

function describeRecord({ recordUntil, unreported }: ErasureResult): string {
  if (recordUntil !== undefined)
    return `Repeat the command after ${recordUntil.toISOString()}: it then erases the token from pushes that were being accepted, and removes the record of the deletion.`;
  if (unreported)
    return "The record of the deletion stays until the deletion is reported to the app's webhooks: repeat the command when `carillon webhook list` shows nothing pending.";
  return 'Nothing of it is left.';
}

/** Deletes the device through the API, which disconnects it; a device that is deleted already is no error. */
async function deleteIfPresent(base: string, key: string, token: string): Promise<void> {
  const path = `/devices/${encodeURIComponent(token)}`;
  const response = await callApi(base, { method: 'DELETE', path, key });
  const isDeleted = response.text.includes('"INVALID_DEVICE_TOKEN"');
  if (response.status !== 200 && !isDeleted) throw toApiFailure(base, response);
}
