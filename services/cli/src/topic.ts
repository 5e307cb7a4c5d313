import type { Command } from 'commander';
import { withAdmin } from './admin/with-admin.ts';
import { formatCount } from './output.ts';
import { addPaging, formatPage, type PagingOptions, toPageQuery } from './paging.ts';
import type { CommandContext } from './stack.ts';

type TopicOptions = PagingOptions & { app: string };

/** Adds `carillon topic …`: the topics of an app and their subscribers. */
export function addTopicCommands(program: Command, { stack, output }: CommandContext): void {
  const topic = program.command('topic').description("list an app's topics and their subscribers");

  addPaging(
    topic
      .command('list')
      .description("list an app's topics in order of name")
      .requiredOption('--app <id>', 'the app'),
    'after',
    'name',
  ).action(async ({ app, ...options }: TopicOptions) => {
    const page = await withAdmin(stack(), (admin) => admin.listTopics(app, toPageQuery(options)));
    const lines = formatPage(
      page,
      ({ name, subscribers }) => `${name}  ${formatCount(subscribers, 'subscriber')}`,
      'after',
    );
    output.show(page.items, lines);
  });
  addPaging(
    topic
      .command('show')
      .description('show a topic, and its subscribers in order of token')
      .argument('<name>')
      .requiredOption('--app <id>', 'the app'),
    'after',
    'token',
  ).action(async (name: string, { app, ...options }: TopicOptions) => {
    const { view, page } = await withAdmin(stack(), async (admin) => ({
      view: await admin.getTopic(app, name),
      page: await admin.listSubscribers(app, name, toPageQuery(options)),
    }));
    const { subscribers, platforms } = view;
    const kinds = platforms.length === 0 ? '' : ` (${platforms.join(', ')})`;
    output.show({ ...view, devices: page.items }, [
      `Topic ${name}: ${formatCount(subscribers, 'subscriber')}${kinds}.`,
      ...formatPage(page, ({ token, platform }) => `  ${token}  ${platform}`, 'after'),
    ]);
  });
}
