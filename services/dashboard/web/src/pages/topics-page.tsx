import type { Topic } from '../api/types.ts';
import { useList } from '../api/use-get.ts';
import { formatCount } from '../lib/times.ts';
import { usePathId, useUrl } from '../lib/use-url.ts';
import { Empty } from '../parts/empty.tsx';
import { TextLink } from '../parts/links.tsx';
import { type Column, List } from '../parts/list.tsx';
import { Page } from '../parts/page.tsx';

/** Lists the topics of an app. */
export function TopicsPage() {
  const app = usePathId('app');
  const { search } = useUrl<'cursor'>();
  const query = useList(`/apps/${app}/topics`, { cursor: search.cursor });
  const columns: Column<Topic>[] = [
    {
      accessor: 'name',
      title: 'Topic',
      render: ({ name: topic }) => (
        <TextLink fz="sm" to="/apps/$app/topics/$topic" params={{ app, topic }}>
          {topic}
        </TextLink>
      ),
    },
    {
      accessor: 'subscribers',
      title: 'Subscribers',
      textAlign: 'right',
      render: ({ subscribers }) => formatCount(subscribers),
    },
  ];
  return (
    <Page title="Topics" description="In order of their names.">
      <List
        query={query}
        columns={columns}
        idOf={({ name }) => name}
        isPaged
        empty={
          <Empty title="No topics yet">
            A topic exists from the first subscription on, which a device makes by its SDK or a
            backend by <span className="mono">POST /devices/subscribe</span>.
          </Empty>
        }
      />
    </Page>
  );
}
