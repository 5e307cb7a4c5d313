import { setTimeout as sleep } from 'node:timers/promises';
import { describeError } from '@carillon/admin/admin-error';
import { FAILURE_CURSOR, type FailureView } from '@carillon/admin/failures';
import {
  type FailureSelection,
  MAX_NAMED_PUSHES,
  type RedriveView,
} from '@carillon/admin/redrives';
import { CHANNELS } from '@carillon/core/channels';
import { FAILURES } from '@carillon/core/outcomes';
import { type Command, InvalidArgumentError, Option } from 'commander';
import type { Admin } from './admin/admin.ts';
import { withAdmin } from './admin/with-admin.ts';
import { commandFailed, usageError } from './failure.ts';
import { collectValues, parsePastTime } from './option-parsers.ts';
import { formatCount } from './output.ts';
import { addPaging, formatPage, type PagingOptions, toPageQuery } from './paging.ts';
import { type ProgressContext, startProgress } from './progress.ts';
import type { CommandContext } from './stack.ts';

/** Pause between two reads of a re-drive's progress. */
const POLL_INTERVAL_MS = 500;
/** Failed reads in a row after which the command gives up: about a minute of a console that restarts. */
const MAX_FAILED_READS = 120;
const PUSH_ID = /^[0-9a-f]{24}$/;

type FailuresContext = CommandContext & ProgressContext & { stopSignal(): AbortSignal };
type FilterOptions = { app: string } & Omit<FailureSelection, 'pushes'>;
type RedriveOptions = FilterOptions & { push?: string[]; all?: true; wait: boolean };

/** Adds `carillon failures …`: deliveries that failed, and their re-drives. */
export function addFailureCommands(program: Command, context: FailuresContext): void {
  const failures = program
    .command('failures')
    .description('list failed deliveries, and send their pushes again');
  addListCommand(failures, context);
  addRedriveCommand(failures, context);
}

function addListCommand(failures: Command, { stack, output }: CommandContext): void {
  const list = failures
    .command('list')
    .description("list an app's failed deliveries by push and channel, the newest first");
  addPaging(addFilter(list), 'before', 'cursor').action(
    async ({ app, channel, reason, from, to, ...paging }: FilterOptions & PagingOptions) => {
      const query = { channel, reason, from, to, ...toPageQuery(paging) };
      if (query.cursor !== undefined && !FAILURE_CURSOR.test(query.cursor))
        throw usageError('--before must be what the last line of a page names.');
      const page = await withAdmin(stack(), (admin) => admin.listFailures(app, query));
      const items = page.items.map((item) => ({ ...item, failedAt: toIso(item.failedAt) }));
      output.show(items, formatPage(page, formatFailure, 'before'));
    },
  );
}

function addRedriveCommand(failures: Command, context: FailuresContext): void {
  addFilter(
    failures
      .command('redrive')
      .description('send pushes again to the recipients that failed, and wait for the end'),
  )
    .option('--push <ids>', 'only these pushes, separated by commas; repeatable', collectPushIds)
    .option('--all', 'all failures of the app')
    .option('--no-wait', 'exit once the re-drive is started')
    .action((options: RedriveOptions) => redrive(context, options));
}

function addFilter(command: Command): Command {
  return command
    .requiredOption('--app <id>', 'the app')
    .addOption(new Option('--channel <channel>', 'only of this channel').choices(CHANNELS))
    .addOption(new Option('--reason <reason>', 'only with this reason').choices(FAILURES))
    .option('--from <time>', 'only since a date, or since 15m, 1h or 30d', parsePastTime)
    .option('--to <time>', 'only until a date, or until 15m, 1h or 30d ago', parsePastTime);
}

function collectPushIds(text: string, previous?: readonly string[]): string[] {
  const ids = collectValues(text, previous);
  if (!ids.every((id) => PUSH_ID.test(id)))
    throw new InvalidArgumentError('The id of a push has 24 hexadecimal digits.');
  if (ids.length <= MAX_NAMED_PUSHES) return ids;
  throw new InvalidArgumentError(`Name up to ${MAX_NAMED_PUSHES} pushes.`);
}

async function redrive(context: FailuresContext, options: RedriveOptions): Promise<void> {
  const { app, push: pushes, channel, reason, from, to, all = false, wait } = options;
  const filter = { channel, reason, from, to };
  const isSelective = [pushes, ...Object.values(filter)].some((value) => value !== undefined);
  if (isSelective === all) throw usageError('Give either --all, or --push or filters.');
  const view = await withAdmin(context.stack(), async (admin) => {
    const id = await admin.startRedrive(app, { ...filter, pushes });
    return wait ? await waitForEnd(context, admin, id) : await admin.getRedrive(id);
  });
  context.output.show(toOutput(view), [describeRedrive(view)]);
  if (view.state === 'stopped') throw commandFailed('The re-drive was stopped.', '');
}

/** Shows the progress of a re-drive until it ends. A signal ends only the command. */
async function waitForEnd(
  context: FailuresContext,
  admin: Pick<Admin, 'getRedrive'>,
  id: string,
): Promise<RedriveView> {
  const signal = context.stopSignal();
  let view: RedriveView | undefined;
  let failedReads = 0;
  let progress: ReturnType<typeof startProgress> | undefined;
  try {
    while (view === undefined || (view.state === 'running' && !signal.aborted)) {
      if (view !== undefined || failedReads > 0)
        await sleep(POLL_INTERVAL_MS, undefined, { signal }).catch(() => undefined);
      try {
        view = await admin.getRedrive(id);
        failedReads = 0;
      } catch (error) {
        failedReads += 1;
        if (failedReads < MAX_FAILED_READS && !signal.aborted) continue;
        throw commandFailed(
          `Re-drive ${id} goes on, and its progress can't be read: ${describeError(error)}.`,
        );
      }
      if (view.total !== undefined)
        progress ??= startProgress(context, { total: view.total, noun: 'pushes' });
      progress?.update(view.done + view.skipped);
    }
    return view;
  } finally {
    progress?.stop();
  }
}

function toOutput({ createdAt, endedAt, ...view }: RedriveView) {
  return {
    ...view,
    createdAt: toIso(createdAt),
    ...(endedAt !== undefined && { endedAt: toIso(endedAt) }),
  };
}

function describeRedrive({ id, state, done, recipients, skipped, skippedReasons }: RedriveView) {
  if (state === 'running') return `Re-drive ${id} is running.`;
  const reasons = Object.entries(skippedReasons).map(([reason, n]) => `${n} ${reason}`);
  const skippedText = skipped === 0 ? '' : `, ${skipped} skipped (${reasons.join(', ')})`;
  return `Re-drive ${id} ${state}: ${formatCount(done, 'push', 'pushes')} sent again to ${formatCount(recipients, 'recipient')}${skippedText}.`;
}

function formatFailure({
  push,
  channel,
  failedAt,
  failed,
  redriven,
  reasons,
}: FailureView): string {
  const again = redriven === 0 ? '' : `, ${redriven} sent again`;
  const texts = reasons.map(({ text, count }) => `${count} ${text}`);
  return `${push}  ${toIso(failedAt)}  ${channel}: ${formatCount(failed, 'recipient')}${again}: ${texts.join(', ')}`;
}

const toIso = (ms: number): string => new Date(ms).toISOString();
