import type { ProviderFixture } from './fixture.ts';

/** Commands for a sender: first the shared data, then numbers of messages. */
export type SenderCommand = { fixture: ProviderFixture } | { send: number };
/** Reply: microseconds of the sender's CPU time. */
export interface SenderReply {
  cpu: number;
}

/** Sends messages; resolves when all have a response, rejects when one is not accepted. */
export type Sender = (count: number) => Promise<void>;

/** Runs the commands of the benchmark that forked this process. */
export function serveSenderCommands(open: (fixture: ProviderFixture) => Sender): void {
  let sender: Sender | undefined;

  async function serve(command: SenderCommand): Promise<void> {
    const before = process.cpuUsage();
    if ('fixture' in command) sender = open(command.fixture);
    else await sender?.(command.send);
    const { user, system } = process.cpuUsage(before);
    process.send?.({ cpu: user + system } satisfies SenderReply);
  }

  process.on('message', (command: SenderCommand) => void serve(command));
  process.on('disconnect', () => process.exit());
}
