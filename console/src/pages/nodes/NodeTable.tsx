// The nodes of the pool; choosing one filters the cards below.
import { useTranslation } from 'react-i18next'
import { formatBytes, formatClock, formatNumber, UNKNOWN } from '../../ui/format'
import { State } from '../../ui/State'
import { VirtualTable } from '../../ui/VirtualTable'
import type { PoolNode } from './fleet'

const ROW_HEIGHT = 40

interface NodeTableProps {
  readonly nodes: readonly PoolNode[]
  readonly chosen: string | null
  onChoose(node: string | null): void
}

export function NodeTable({ nodes, chosen, onChoose }: NodeTableProps) {
  const { t } = useTranslation('nodes')
  return (
    <VirtualTable
      className="nodes-nodes"
      label={t('nodes')}
      count={nodes.length}
      rowHeight={ROW_HEIGHT}
      head={
        <tr>
          <th>{t('node')}</th>
          <th>{t('state')}</th>
          <th className="right">{t('cards')}</th>
          <th className="right only-l">{t('processors')}</th>
          <th className="right only-l">{t('mainMemory')}</th>
          <th className="right only-l">{t('lastSeen')}</th>
          <th className="only-l">{t('labels')}</th>
        </tr>
      }
      renderRow={(index) => {
        const node = nodes[index]
        if (!node) return null
        const isChosen = node.name === chosen
        return <NodeCells node={node} chosen={isChosen} onChoose={() => onChoose(isChosen ? null : node.name)} />
      }}
    />
  )
}

function NodeCells({ node, chosen, onChoose }: { node: PoolNode; chosen: boolean; onChoose: () => void }) {
  const { t } = useTranslation('nodes')
  const cpu = (milli: number | null) => (milli === null ? UNKNOWN : formatNumber(milli / 1000, 1))
  const labels = Object.entries(node.labels).map(([name, value]) => `${name}=${value}`)
  return (
    <>
      <td>
        <button type="button" className="nodes-open link strong nowrap" aria-pressed={chosen} onClick={onChoose}>
          {node.name}
        </button>
        {node.cluster && (
          <span className="small dim" title={t('clusterText')}>
            {' '}
            {t('cluster')}
          </span>
        )}
      </td>
      <td>
        <State state={node.ready ? 'ready' : 'lost'} />
      </td>
      <td className="right num">{formatNumber(node.devices)}</td>
      <td className="right num nowrap only-l">
        {t('ofTotal', { free: cpu(node.free_cpu_milli), total: cpu(node.cpu_milli) })}
      </td>
      <td className="right num nowrap only-l">
        {t('ofTotal', { free: formatBytes(node.free_host_bytes), total: formatBytes(node.host_bytes) })}
      </td>
      <td className="right num nowrap only-l">{formatClock(node.last_seen_ns)}</td>
      <td className="only-l cut nodes-labels small sub" title={labels.join(', ')}>
        {labels.join(', ')}
      </td>
    </>
  )
}
