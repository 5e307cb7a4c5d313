import { Stack, Table } from '@mantine/core';
import type { PushDetails } from '../../api/types.ts';
import { describeReason } from '../../lib/outcomes.ts';
import { formatCount } from '../../lib/times.ts';
import { DeviceLink } from '../../parts/object-links.tsx';
import { OutcomeMark } from '../../parts/outcomes.tsx';
import { Panel } from '../../parts/panel.tsx';
import { Sideways } from '../../parts/sideways.tsx';

/** Shows what providers answered, and some of the recipients concerned. Nothing without an error. */
export function ProviderErrors({
  errors: { texts, recipients },
}: {
  errors: PushDetails['providerErrors'];
}) {
  if (texts.length === 0) return null;
  return (
    <Panel title="Errors of providers" note="In the provider’s own words">
      <Stack gap="md">
        <Sideways label="Errors by text">
          <Table verticalSpacing={5} fz="sm">
            <Table.Thead>
              <Table.Tr>
                <Table.Th>Error</Table.Th>
                <Table.Th>Then</Table.Th>
                <Table.Th className="numeric">Devices</Table.Th>
              </Table.Tr>
            </Table.Thead>
            <Table.Tbody>
              {texts.map(({ text, count, isWaiting }) => (
                <Table.Tr key={`${isWaiting}:${text}`}>
                  <Table.Td className="wrap-anywhere">{describeReason(text)}</Table.Td>
                  <Table.Td>{isWaiting ? 'is tried again' : 'failed'}</Table.Td>
                  <Table.Td className="numeric">{formatCount(count)}</Table.Td>
                </Table.Tr>
              ))}
            </Table.Tbody>
          </Table>
        </Sideways>
        {recipients.length > 0 && <Sample recipients={recipients} />}
      </Stack>
    </Panel>
  );
}

function Sample({ recipients }: Pick<PushDetails['providerErrors'], 'recipients'>) {
  return (
    <Sideways label="Devices with errors" minWidth={480}>
      <Table verticalSpacing={5} fz="sm" captionSide="top">
        <Table.Caption ta="left">{`Some of these devices (${recipients.length})`}</Table.Caption>
        <Table.Thead>
          <Table.Tr>
            <Table.Th>Device</Table.Th>
            <Table.Th>Outcome</Table.Th>
            <Table.Th>Error</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {recipients.map(({ token, outcome, detail, reason }) => (
            <Table.Tr key={token}>
              <Table.Td>
                <DeviceLink token={token} />
              </Table.Td>
              <Table.Td>
                <OutcomeMark outcome={outcome} />
              </Table.Td>
              <Table.Td className="wrap-anywhere">
                {detail ?? describeReason(reason ?? '–')}
              </Table.Td>
            </Table.Tr>
          ))}
        </Table.Tbody>
      </Table>
    </Sideways>
  );
}
