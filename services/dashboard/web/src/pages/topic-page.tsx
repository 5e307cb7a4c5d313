import type { Subscriber } from '../api/types.ts';
import { useList } from '../api/use-get.ts';
import { usePathId, useUrl } from '../lib/use-url.ts';
import { Empty } from '../parts/empty.tsx';
import { ButtonLink } from '../parts/links.tsx';
import { type Column, List } from '../parts/list.tsx';
import { DeviceLink } from '../parts/object-links.tsx';
import { Page } from '../parts/page.tsx';
import { useMay } from '../shell/session.ts';

const COLUMNS: Column<Subscriber>[] = [
  { accessor: 'token', title: 'Device token', render: ({ token }) => <DeviceLink token={token} /> },
  { accessor: 'platform', title: 'Platform' },
];

/** Lists the subscribers of a topic. */
export function TopicPage() {
  const app = usePathId('app');
  const topic = usePathId('topic');
  const { search } = useUrl<'cursor'>();
  const maySend = useMay('operator');
  const path = `/apps/${app}/topics/${encodeURIComponent(topic)}/subscribers` as const;
  const query = useList(path, { cursor: search.cursor });
  return (
    <Page
      title={`Topic ${topic}`}
      description="Its subscribers, in order of their tokens."
      actions={
        maySend && (
          <ButtonLink
            size="xs"
            to="/apps/$app/compose"
            params={{ app }}
            search={{ to: `/topics/${topic}` }}
          >
            Send to this topic
          </ButtonLink>
        )
      }
    >
      <List
        query={query}
        columns={COLUMNS}
        idOf={({ token }) => token}
        isPaged
        empty={
          <Empty title="No subscribers">
            Devices that subscribe to this topic appear here. A push to it has no recipients now.
          </Empty>
        }
      />
    </Page>
  );
}
