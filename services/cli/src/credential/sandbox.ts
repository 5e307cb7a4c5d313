import { parseSealingKeys } from '@carillon/core/sealing';
import type { CredentialDocument } from '@carillon/store/documents';
import type { Command } from 'commander';
import { z } from 'zod';
import { needApp, withStore } from '../database.ts';
import { reasonOf, unreachable } from '../failure.ts';
import type { Output } from '../output.ts';
import { need, type Stack } from '../stack.ts';
import { appleToken } from './apple-token.ts';
import type { Checked } from './checked.ts';
import { serviceAccountOf } from './firebase.ts';
import { keepCredential, linesOf, viewOf } from './keep.ts';

const DEADLINE_MS = 10_000;

const told = z.object({
  ca: z.string(),
  apns: z.object({
    host: z.string(),
    port: z.int(),
    key: z.string(),
    keyId: z.string(),
    teamId: z.string(),
  }),
  fcm: z.object({ host: z.string(), port: z.int(), serviceAccount: z.looseObject({}) }),
});

/** `carillon credential sandbox`: every channel without an account anywhere. */
export function addSandboxCommand(
  parent: Command,
  { stack, output }: { stack: () => Stack; output: Output },
): void {
  parent
    .command('sandbox')
    .description("give an app the sandbox's credentials where it has none of a provider itself")
    .requiredOption('--app <id>', 'the app')
    .action(async ({ app }: { app: string }) => {
      const where = stack();
      const keys = parseSealingKeys(need(where, 'sealingKeys'));
      const offered = await readOffered(need(where, 'sandbox'));
      const kept = await withStore(where, async (store) => {
        await needApp(store, app);
        const present = await store.credentials.list(app);
        const wanted = offered.filter((one) => mayReplace(present, one));
        return Promise.all(
          wanted.map(({ checked, gateway }) =>
            keepCredential(store, keys, { app, channel: checked.channel }, checked, gateway),
          ),
        );
      });
      output.show(kept.map(viewOf), kept.flatMap(linesOf));
    });
}

interface Offered {
  checked: Checked;
  gateway: { host: string; port: number; ca: string };
}

async function readOffered(sandbox: string): Promise<Offered[]> {
  try {
    const signal = AbortSignal.timeout(DEADLINE_MS);
    const answer = await fetch(`${sandbox}/credentials`, { signal });
    const { ca, apns, fcm } = told.parse(await answer.json());
    const account = JSON.stringify(fcm.serviceAccount);
    return [
      { checked: appleToken("the sandbox's key", apns.key, apns), gateway: placeAt(apns, ca) },
      { checked: serviceAccountOf("the sandbox's account", account), gateway: placeAt(fcm, ca) },
    ];
  } catch (error) {
    throw unreachable(`The sandbox at ${sandbox} can't be used: ${reasonOf(error)}.`);
  }
}

function placeAt({ host, port }: { host: string; port: number }, ca: string): Offered['gateway'] {
  return { host, port, ca };
}

/** One without a gateway goes to the provider itself, and one like this is there already. */
function mayReplace(
  present: readonly CredentialDocument[],
  { checked, gateway }: Offered,
): boolean {
  const own = present.find(({ channel }) => channel === checked.channel);
  if (own === undefined) return true;
  const at = own.about.gateway;
  return at !== undefined && at !== `${gateway.host}:${gateway.port}`;
}
