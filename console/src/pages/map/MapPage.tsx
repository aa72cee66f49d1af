// The map: every card of the pool as a tile, its shares to scale; and the same as a table.
import { ActionIcon, Drawer, SegmentedControl, useComputedColorScheme } from '@mantine/core'
import { useMediaQuery } from '@mantine/hooks'
import { IconMinus, IconPlus, IconX } from '@tabler/icons-react'
import { useCallback, useMemo, useRef, useState } from 'react'
import { useTranslation } from 'react-i18next'
import { findCard, findChangedCards, nameOf, OTHER_TENANT, type PoolColumns } from '../../map/columns'
import { type CardGroup, GROUPINGS, type Grouping, groupCards, sumHeldMilli } from '../../map/groups'
import type { Hit } from '../../map/hits'
import { stepZoom } from '../../map/layout'
import { COLOURINGS, type Colouring } from '../../map/tiles'
import { describeCard } from '../../map/words'
import { findMark } from '../../theme/marks'
import { CardPanel, CardTitle } from './CardPanel'
import { Legend } from './Legend'
import { MapCanvas } from './MapCanvas'
import { MapTable } from './MapTable'
import { ModelPanel } from './ModelPanel'
import { type Pointed, PointedCard } from './PointedCard'
import { usePoolMap } from './poolMap'
import './map.css'
import { Answer } from '../../ui/Answer'
import { formatCards, formatNumber, formatPercent } from '../../ui/format'
import { Empty, Page, Panel } from '../../ui/Page'

export function MapPage() {
  const { t } = useTranslation('map')
  const map = usePoolMap()
  const columns = map.data
  const fact = useFact(columns)
  return (
    <Page title={t('title')} sentence={fact} command="gpupool gpus">
      <Answer query={map}>
        {columns && columns.size === 0 && <Empty>{t('emptyText')}</Empty>}
        {columns && columns.size > 0 && <MapOfCards columns={columns} />}
      </Answer>
    </Page>
  )
}

function useFact(columns: PoolColumns | undefined): string {
  const { t } = useTranslation('map')
  return useMemo(() => {
    if (!columns) return ''
    if (columns.size === 0) return t('factEmpty')
    const held = columns.heldMilli.reduce((sum, milli) => sum + milli, 0)
    return t('fact', {
      held: formatCards(held),
      cards: formatNumber(columns.size),
      nodes: formatNumber(columns.nodes.name.length),
    })
  }, [columns, t])
}

function MapOfCards({ columns }: { columns: PoolColumns }) {
  const { t } = useTranslation('map')
  const scheme = useComputedColorScheme('light')
  const small = useMediaQuery('(max-width: 760px)', false, { getInitialValueInEffect: false })
  const [view, setView] = useState('map')
  const [grouping, setGrouping] = useState<Grouping>('rack')
  const [colouring, setColouring] = useState<Colouring>('tenant')
  const [zoom, setZoom] = useState(1)
  const [name, setName] = useState<string | null>(readCardOfAddress)
  const [pointed, setPointed] = useState<Pointed | null>(null)
  const groups = useGroups(columns, grouping)
  const titles = useTitles(columns, groups, grouping)
  const marks = useMemo(() => columns.tenants.map(findMark), [columns.tenants])
  const selected = name === null ? null : findCard(columns, name)
  const select = useCallback((card: number) => setName(nameOf(columns, card)), [columns])
  const point = useCallback((hit: Hit | null, x: number, y: number) => {
    setPointed(hit && { hit, x, y })
  }, [])
  const close = () => setName(null)
  const options = (words: readonly string[], key: string) =>
    words.map((value) => ({ value, label: t(`${key}.${value}`) }))

  return (
    <div className={selected !== null && !small ? 'grid map-with-panel' : 'grid'}>
      <div className="grid">
        <Panel flush>
          <div className="row wrap map-bar">
            <span className="row small sub">
              {t('groupBy')}
              <SegmentedControl
                size="xs"
                aria-label={t('groupBy')}
                data={options(GROUPINGS, 'grouping')}
                value={grouping}
                onChange={(value) => setGrouping(value as Grouping)}
              />
            </span>
            <span className="row small sub">
              {t('colourBy')}
              <SegmentedControl
                size="xs"
                aria-label={t('colourBy')}
                data={options(COLOURINGS, 'colouring')}
                value={colouring}
                onChange={(value) => setColouring(value as Colouring)}
              />
            </span>
            <span className="grow" />
            <Zoom zoom={zoom} onZoom={setZoom} />
            <SegmentedControl
              size="xs"
              aria-label={t('view')}
              data={[
                { value: 'map', label: t('viewMap') },
                { value: 'table', label: t('viewTable') },
              ]}
              value={view}
              onChange={setView}
            />
          </div>
          <Legend columns={columns} colouring={colouring} />
          {view === 'table' ? (
            <MapTable columns={columns} groups={groups} onSelect={select} />
          ) : (
            <MapCanvas
              columns={columns}
              groups={groups}
              titles={titles}
              marks={marks}
              colouring={colouring}
              zoom={zoom}
              scheme={scheme}
              selected={selected}
              label={t('canvasLabel')}
              describe={(card) => describeCard(columns, card, (key, values) => t(key, values ?? {}))}
              onSelect={select}
              onPoint={point}
            />
          )}
        </Panel>
        <ModelPanel columns={columns} />
      </div>
      {selected !== null && !small && (
        <div className="map-panel">
          <Panel title={<CardTitle columns={columns} card={selected} />} right={<Close onClose={close} />}>
            <CardPanel columns={columns} card={selected} />
          </Panel>
        </div>
      )}
      {selected !== null && small && (
        <Drawer
          opened
          onClose={close}
          position="bottom"
          size="76%"
          title={<CardTitle columns={columns} card={selected} />}
          closeButtonProps={{ 'aria-label': t('close') }}
        >
          <CardPanel columns={columns} card={selected} />
        </Drawer>
      )}
      {pointed && view === 'map' && <PointedCard columns={columns} pointed={pointed} />}
    </div>
  )
}

/** The card that the address names, `?card=node-1:0`: other pages link to it. */
function readCardOfAddress(): string | null {
  return new URLSearchParams(location.search).get('card')
}

/** The groups; the same ones as long as the cards are the same, so that nothing is laid out again. */
function useGroups(columns: PoolColumns, grouping: Grouping): CardGroup[] {
  const known = useRef<{ columns: PoolColumns; grouping: Grouping; groups: CardGroup[] } | null>(null)
  return useMemo(() => {
    const before = known.current
    const same =
      before !== null &&
      before.grouping === grouping &&
      grouping !== 'tenant' &&
      findChangedCards(before.columns, columns) !== null
    const groups = same ? before.groups : groupCards(columns, grouping)
    known.current = { columns, grouping, groups }
    return groups
  }, [columns, grouping])
}

function useTitles(columns: PoolColumns, groups: readonly CardGroup[], grouping: Grouping) {
  const { t } = useTranslation('map')
  return useMemo(
    () =>
      groups.map((group): readonly [string, string] => {
        const values = {
          held: formatCards(sumHeldMilli(columns, group)),
          cards: formatNumber(group.cards),
        }
        const amount = grouping === 'tenant' ? t('heldByTenant', values) : t('heldOf', values)
        return [titleOf(group, grouping, t), amount]
      }),
    [columns, groups, grouping, t],
  )
}

function titleOf(group: CardGroup, grouping: Grouping, t: (key: string) => string): string {
  if (group.title !== '') return group.title
  if (grouping === 'node') return ''
  if (group.tenant === OTHER_TENANT) return t('otherTenants')
  return t(grouping === 'rack' ? 'noRack' : grouping === 'domain' ? 'noDomain' : 'noName')
}

function Zoom({ zoom, onZoom }: { zoom: number; onZoom: (zoom: number) => void }) {
  const { t } = useTranslation('map')
  return (
    <span className="row map-zoom">
      <ActionIcon variant="default" aria-label={t('zoomOut')} onClick={() => onZoom(stepZoom(zoom, -1))}>
        <IconMinus size={15} />
      </ActionIcon>
      <span className="num small map-percent">{formatPercent(zoom)}</span>
      <ActionIcon variant="default" aria-label={t('zoomIn')} onClick={() => onZoom(stepZoom(zoom, 1))}>
        <IconPlus size={15} />
      </ActionIcon>
    </span>
  )
}

function Close({ onClose }: { onClose: () => void }) {
  const { t } = useTranslation('map')
  return (
    <ActionIcon variant="subtle" aria-label={t('close')} onClick={onClose}>
      <IconX size={15} />
    </ActionIcon>
  )
}
