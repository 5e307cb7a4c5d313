import type { RecipientFate } from '@carillon/store/documents';
import type { Command } from 'commander';
import { withStore } from './database.ts';
import { refused } from './failure.ts';
import { count, type Output } from './output.ts';
import type { Stack } from './stack.ts';

/** `carillon push outcomes`: how a push's recipients stand or ended, from the database itself. */
export function addOutcomesCommand(
  push: Command,
  { stack, output }: { stack: () => Stack; output: Output },
): void {
  push
    .command('outcomes')
    .description("how a push's recipients stand or ended")
    .argument('<id>')
    .option('--token <token>', 'of this recipient only')
    .action(async (id: string, { token }: { token?: string }) => {
      await (token === undefined ? ofPush(id) : ofRecipient(id, token));
    });

  async function ofPush(id: string): Promise<void> {
    const fates = await withStore(stack(), (store) => store.fates.ofPush(id));
    if (fates === undefined) throw refused(`There is no push ${id}.`);
    output.show(fates, [
      `Push ${id}: ${fates.state}, ${count(fates.devices, 'device')}.`,
      ...Object.entries(fates.outcomes).map(([name, n]) => `  ${name.padEnd(10)} ${n}`),
    ]);
  }

  async function ofRecipient(id: string, token: string): Promise<void> {
    const fate = await withStore(stack(), (store) => store.fates.ofRecipient(id, token));
    if (fate === undefined) throw refused(`There is no push ${id} to the device ${token}.`);
    output.show({ token, ...fate }, [`Device ${token}: ${inWords(fate)}.`]);
  }
}

function inWords({ outcome, reason, milliseconds }: RecipientFate): string {
  const why = reason === undefined ? '' : ` (${reason})`;
  return `${outcome}${why}${milliseconds === undefined ? '' : ` after ${milliseconds} ms`}`;
}
