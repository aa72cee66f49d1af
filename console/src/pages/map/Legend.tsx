// What the colours and patterns of the map mean.
import { type CSSProperties, useMemo } from 'react'
import { useTranslation } from 'react-i18next'
import { type Condition, conditionOf, OTHER_TENANT, type PoolColumns } from '../../map/columns'
import { markOfMechanism, USED_COLOUR, WASTED_COLOUR } from '../../map/palette'
import type { Colouring } from '../../map/tiles'
import { styleMark, USE_RAMP } from '../../theme/marks'
import { formatNumber, formatPercent } from '../../ui/format'
import { Tenant } from '../../ui/ShareBar'
import { State } from '../../ui/State'
import { Swatch } from '../../ui/Swatch'

/** Marks of tenants that are named; of more, the table names them. */
const MOST_TENANTS = 24

export function Legend({ columns, colouring }: { columns: PoolColumns; colouring: Colouring }) {
  const { t } = useTranslation('map')
  return (
    <div className="row wrap small sub map-legend">
      {colouring === 'tenant' && <Tenants columns={columns} />}
      {colouring === 'use' && (
        <span className="row">
          {t('useScale')} <span className="num">{formatPercent(0)}</span>
          <span className="row map-ramp">
            {USE_RAMP.map((colour) => (
              <span key={colour} className="map-step" style={{ background: colour }} />
            ))}
          </span>
          <span className="num">{formatPercent(1)}</span>
          <Sample name={t('unknown')} kind="strand" />
        </span>
      )}
      {colouring === 'waste' && (
        <>
          <Sample name={t('used')} style={{ background: USED_COLOUR }} />
          <Sample name={t('unused')} style={{ background: WASTED_COLOUR }} />
          <Sample name={t('unknown')} kind="strand" />
        </>
      )}
      {colouring === 'health' && <Conditions columns={columns} />}
      {colouring === 'mechanism' &&
        columns.mechanisms.map((name, mechanism) => (
          <Sample key={name} name={name} style={styleMark(markOfMechanism(mechanism))} />
        ))}
      <Sample name={t('free')} style={{ background: 'var(--cell)' }} />
      <Sample name={t('stranded')} kind="strand" />
    </div>
  )
}

interface SampleProps {
  readonly name: string
  readonly style?: CSSProperties
  readonly kind?: string
}

function Sample({ name, style, kind = '' }: SampleProps) {
  return (
    <span className="row">
      <span className={`sw ${kind}`} style={style} aria-hidden />
      {name}
    </span>
  )
}

function Tenants({ columns }: { columns: PoolColumns }) {
  const { t } = useTranslation('map')
  const hasOthers = useMemo(() => columns.shareTenant.includes(OTHER_TENANT), [columns])
  return (
    <>
      {columns.tenants.slice(0, MOST_TENANTS).map((tenant) => (
        <Tenant key={tenant} name={tenant} />
      ))}
      {columns.tenants.length > MOST_TENANTS && (
        <span>{`+${formatNumber(columns.tenants.length - MOST_TENANTS)}`}</span>
      )}
      {hasOthers && (
        <span className="row">
          <Swatch tenant={null} />
          {t('otherTenants')}
        </span>
      )}
    </>
  )
}

function Conditions({ columns }: { columns: PoolColumns }) {
  const found = useMemo(() => {
    const conditions = new Set<Condition>()
    for (let card = 0; card < columns.size; card++) conditions.add(conditionOf(columns, card))
    return [...conditions].sort()
  }, [columns])
  return (
    <>
      {found.map((condition) => (
        <State key={condition} state={condition} />
      ))}
    </>
  )
}
